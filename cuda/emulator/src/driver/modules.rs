//! Modules and their functions.

use super::code::Code;
use super::schedule::Work;
use super::{Driver, Handle, Result};
use crate::machine::{SHARED_LIMIT, SHARED_LIMIT_OPT_IN};
use crate::program::{Program, decode};
use crate::ptx::{ParseError, Space, parse};
use crate::report::Kind;
use std::collections::HashMap;
use std::sync::Arc;

/// A loaded module.
pub struct Module {
    /// The context it belongs to.
    pub context: Handle,
    /// `.version` as `major * 10 + minor`.
    pub version: i32,
    /// `.target`.
    pub target: u32,
    programs: Vec<Arc<Program>>,
    /// Variables: address and size by name.
    variables: HashMap<String, (u64, u64)>,
}

/// A kernel the program asked for.
pub struct Function {
    /// Its module.
    pub module: Handle,
    /// What it does.
    pub program: Arc<Program>,
    /// The dynamic shared memory it may use, once raised.
    pub dynamic_limit: Option<u64>,
}

impl Driver {
    /// Loads a module from PTX text.
    pub fn load_module(&mut self, text: &str) -> Result<Handle> {
        let (context, found) = self.context()?;
        let architecture = self.devices[found.device].architecture;
        let module = parse(text).map_err(|error| self.refuse(&error, Code::INVALID_PTX))?;
        let newest = self.settings.newest_ptx();
        if module.version > newest {
            let ((major, minor), (known, known_minor)) = (module.version, newest);
            let error = format!("PTX version {major}.{minor}, but this driver reads up to {known}.{known_minor}");
            return Err(self.refuse(&ParseError::new(1, error), Code::UNSUPPORTED_PTX_VERSION));
        }
        if module.target > architecture {
            let error = format!("PTX for sm_{}, but the device is sm_{architecture}", module.target);
            return Err(self.refuse(&ParseError::new(1, error), Code::INVALID_PTX));
        }
        let mut variables = HashMap::new();
        for variable in module.variables.iter().filter(|variable| variable.space != Space::Shared) {
            let size = variable.size.unwrap_or(0);
            let address = self.allocate_variable(size)?;
            self.initialise(address, &variable.initial);
            variables.insert(variable.name.clone(), (address, size));
        }
        let addresses = variables.iter().map(|(name, &(address, _))| (name.clone(), address)).collect();
        let mut programs = Vec::new();
        for kernel in &module.kernels {
            match decode(&module, kernel, &addresses) {
                Ok(program) => programs.push(Arc::new(program)),
                Err(error) => {
                    for (address, _) in variables.into_values() {
                        self.release(address);
                    }
                    return Err(self.refuse(&error, Code::INVALID_PTX));
                }
            }
        }
        let handle = self.new_handle();
        let version = (module.version.0 * 10 + module.version.1) as i32;
        self.modules.insert(handle, Module { context, version, target: module.target, programs, variables });
        Ok(handle)
    }

    fn refuse(&mut self, error: &ParseError, code: Code) -> Code {
        self.report(Kind::RefusedModule, || error.to_string());
        code
    }

    /// Ends a module; its functions become invalid.
    pub fn unload_module(&mut self, handle: Handle) -> Result<()> {
        let module = self.modules.remove(&handle).ok_or(Code::INVALID_HANDLE)?;
        self.functions.retain(|_, function| function.module != handle);
        for (address, _) in module.variables.into_values() {
            self.release(address);
        }
        Ok(())
    }

    /// Gives a loaded kernel other instructions: those of the kernel of that name in `text`.
    pub fn replace_kernel(&mut self, name: &str, text: &str) -> std::result::Result<(), String> {
        let parsed = parse(text).map_err(|error| error.to_string())?;
        let kernel = parsed.kernels.iter().find(|kernel| kernel.name == name);
        let kernel = kernel.ok_or_else(|| format!("the text has no kernel `{name}`"))?;
        let mut found = false;
        for (handle, module) in &mut self.modules {
            let Some(place) = module.programs.iter().position(|program| program.name == name) else { continue };
            let addresses = module.variables.iter().map(|(name, &(address, _))| (name.clone(), address)).collect();
            let program = Arc::new(decode(&parsed, kernel, &addresses).map_err(|error| error.to_string())?);
            for function in self.functions.values_mut() {
                if function.module == *handle && function.program.name == name {
                    function.program = program.clone();
                }
            }
            module.programs[place] = program;
            found = true;
        }
        found.then_some(()).ok_or_else(|| format!("no loaded module has a kernel `{name}`"))
    }

    /// Finds a kernel of a module.
    pub fn find_function(&mut self, module_handle: Handle, name: &str) -> Result<Handle> {
        let module = self.modules.get(&module_handle).ok_or(Code::INVALID_HANDLE)?;
        let program = module.programs.iter().find(|program| program.name == name).ok_or(Code::NOT_FOUND)?.clone();
        let existing = self.functions.iter().find(|(_, function)| Arc::ptr_eq(&function.program, &program));
        if let Some((&handle, _)) = existing {
            return Ok(handle);
        }
        let handle = self.new_handle();
        self.functions.insert(handle, Function { module: module_handle, program, dynamic_limit: None });
        Ok(handle)
    }

    /// Address and size of a variable of a module.
    pub fn find_variable(&self, module: Handle, name: &str) -> Result<(u64, u64)> {
        let module = self.modules.get(&module).ok_or(Code::INVALID_HANDLE)?;
        module.variables.get(name).copied().ok_or(Code::NOT_FOUND)
    }

    /// A function by its handle.
    pub fn function(&mut self, handle: Handle) -> Result<&mut Function> {
        self.functions.get_mut(&handle).ok_or(Code::INVALID_HANDLE)
    }

    /// Queues a launch after checking its shape.
    pub fn queue_launch(
        &mut self,
        function: Handle,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_shared: u64,
        stream: Handle,
        parameters: impl FnOnce(&Program) -> Result<Vec<u8>>,
    ) -> Result<()> {
        let stream = self.stream(stream)?;
        let (context, _) = self.context()?;
        let found = self.function(function)?;
        let (program, limit) = (found.program.clone(), found.dynamic_limit);
        let module = found.module;
        if self.modules.get(&module).is_none_or(|module| module.context != context) {
            return Err(Code::INVALID_HANDLE);
        }
        if let Some(problem) = launch_problem(&program, grid, block, dynamic_shared, limit) {
            self.report(Kind::InvalidLaunch, || format!("kernel {}: {problem}", program.name));
            return Err(Code::INVALID_VALUE);
        }
        let parameters = parameters(&program)?;
        let label = format!("kernel {}", program.name);
        self.enqueue(stream, Work::Launch { program, grid, block, parameters, dynamic_shared }, label)?;
        Ok(())
    }
}

fn launch_problem(
    program: &Program,
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_shared: u64,
    limit: Option<u64>,
) -> Option<String> {
    let threads: u64 = block.iter().map(|&extent| u64::from(extent)).product();
    if grid.contains(&0) || block.contains(&0) {
        return Some(format!("grid {grid:?} of blocks {block:?} has an extent of zero"));
    }
    if threads > 1024 || block[2] > 64 {
        return Some(format!("block {block:?} is larger than 1024 threads, or than 64 along z"));
    }
    if grid[0] > i32::MAX as u32 || grid[1] > 65535 || grid[2] > 65535 {
        return Some(format!("grid {grid:?} is larger than [2147483647, 65535, 65535]"));
    }
    if program.required_threads.is_some_and(|required| required != block) {
        return Some(format!("block {block:?} where the kernel requires {:?}", program.required_threads));
    }
    if program.maximum_threads.is_some_and(|maximum| threads > maximum) {
        return Some(format!("{threads} threads where the kernel allows {:?}", program.maximum_threads));
    }
    let allowed = limit.unwrap_or(SHARED_LIMIT.saturating_sub(program.static_shared));
    if dynamic_shared > allowed || program.static_shared + dynamic_shared > SHARED_LIMIT_OPT_IN {
        return Some(format!("{dynamic_shared} bytes of dynamic shared memory where {allowed} are allowed"));
    }
    None
}
