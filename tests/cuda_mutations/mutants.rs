//! Kernels that are wrong in one place each.

use firelu::registry::cuda_modules;

/// A kernel of the PTX that ships.
pub struct Kernel {
    pub name: String,
    /// What stands before the kernels of its module.
    header: String,
    lines: Vec<String>,
}

/// A kernel with one change.
pub struct Mutant {
    /// Which one of those of the kernel.
    pub number: usize,
    /// The kernel, the number, the change and what stood there.
    pub label: String,
    pub text: String,
}

/// All kernels that ship.
pub fn kernels() -> Vec<&'static str> {
    let entries = cuda_modules().flat_map(|module| module.text.split(".visible .entry ").skip(1));
    entries.map(|entry| entry.split('(').next().expect("a name")).collect()
}

impl Kernel {
    pub fn new(name: &str) -> Self {
        let entry = format!(".visible .entry {name}(");
        let text =
            cuda_modules().map(|module| module.text).find(|text| text.contains(&entry)).expect("a kernel that ships");
        let header = text[..text.find(".visible .entry").expect("kernels")].to_string();
        let start = text.find(&entry).expect("this kernel");
        let length = text[start..].find("\n}").expect("its end") + 2;
        Kernel { name: name.into(), header, lines: text[start..start + length].lines().map(str::to_string).collect() }
    }

    pub fn text(&self) -> String {
        format!("{}{}\n", self.header, self.lines.join("\n"))
    }

    /// What decides where a thread goes, in order: labels, branches, barriers, integer comparisons and operations on
    /// predicates, with numbers for labels and without those of registers. Kernels of one source for several types with
    /// the same skeleton have the same mutants.
    pub fn skeleton(&self) -> Vec<String> {
        let mut labels: Vec<&str> = Vec::new();
        let mut number = |label| match labels.iter().position(|known| *known == label) {
            Some(place) => place,
            None => {
                labels.push(label);
                labels.len() - 1
            }
        };
        let mut found = Vec::new();
        for line in &self.lines {
            let line = line.trim();
            let opcode =
                if line.starts_with('@') { line.split_once(' ').map_or("", |(_, rest)| rest.trim()) } else { line };
            let is_comparison =
                opcode.starts_with("setp.") && !opcode.split('.').nth(2).is_some_and(|of| of.starts_with('f'));
            let is_logic = opcode.split_whitespace().next().is_some_and(|opcode| opcode.ends_with(".pred"));
            let is_label = line.starts_with('$');
            if is_label || is_comparison || is_logic || ["bra", "ret", "bar."].iter().any(|&o| opcode.starts_with(o)) {
                let words =
                    line.split(|c: char| c.is_whitespace() || ",;:".contains(c)).filter(|word| !word.is_empty());
                let plain = words.map(|word| match word {
                    label if label.starts_with('$') => format!("${}", number(label)),
                    register if register.contains('%') => {
                        register.trim_end_matches(|c: char| c.is_ascii_digit()).to_string()
                    }
                    other => other.to_string(),
                });
                found.push(plain.collect::<Vec<_>>().join(" "));
            }
        }
        found
    }

    /// A number for the skeleton (FNV-1a).
    pub fn fingerprint(&self) -> String {
        let bytes = self.skeleton().join("\n").into_bytes();
        let hash = bytes.iter().fold(0x811c_9dc5u32, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        format!("{hash:08x}")
    }

    fn changed(&self, line: usize, what: &str, to: String, number: usize) -> Mutant {
        let mut kernel = Kernel { name: self.name.clone(), header: self.header.clone(), lines: self.lines.clone() };
        let original = std::mem::replace(&mut kernel.lines[line], to);
        let original = original.split_whitespace().collect::<Vec<_>>().join(" ");
        let label = format!("{} {} {number} {what}: {original}", self.name, self.fingerprint());
        Mutant { number, label, text: kernel.text() }
    }

    /// Without each of its barriers.
    pub fn without_barriers(&self) -> Vec<Mutant> {
        self.each(|line| if line.starts_with("bar.sync") { vec![("dropped", String::new())] } else { vec![] })
    }

    /// Without each of its conditional branches, with each bound of an integer comparison shifted by one, and with each
    /// half of a condition of two.
    pub fn without_guards(&self) -> Vec<Mutant> {
        self.each(|line| {
            if line.starts_with('@') && line.contains(" bra ") {
                return vec![("dropped", String::new())];
            }
            if line.starts_with("and.pred") || line.starts_with("or.pred") {
                let (operation, operands) = line.split_once(char::is_whitespace).expect("operands");
                let operands: Vec<_> = operands.trim_end_matches(';').split(',').map(str::trim).collect();
                let only = |k: usize| format!("{operation} {}, {}, {};", operands[0], operands[k], operands[k]);
                return vec![("first half", only(1)), ("second half", only(2))];
            }
            let shifts = [
                ("setp.lt.", "setp.le."),
                ("setp.le.", "setp.lt."),
                ("setp.gt.", "setp.ge."),
                ("setp.ge.", "setp.gt."),
            ];
            let is_integer = |line: &str| matches!(line.as_bytes().get("setp.lt.".len()), Some(b's' | b'u'));
            let shift = shifts.iter().find(|(from, _)| line.starts_with(from) && is_integer(line));
            shift.map(|(from, to)| ("shifted", line.replacen(from, to, 1))).into_iter().collect()
        })
    }

    /// Whether the branch of this line only goes round a division of 64 bits where one of 32 gives the same quotient:
    /// the compiler's own test, of the upper halves of both operands.
    fn is_short_division(&self, number: usize) -> bool {
        let [.., test, condition] = &self.lines[..number] else { return false };
        let tested = condition.trim().strip_prefix("setp.eq.s64").and_then(|rest| rest.split(',').nth(1));
        let Some(tested) = tested.map(str::trim) else { return false };
        let test: Vec<_> = test.trim().trim_end_matches(';').split_whitespace().collect();
        matches!(test[..], ["and.b64", result, _, "-4294967296"] if result.trim_end_matches(',') == tested)
    }

    fn each(&self, change: impl Fn(&str) -> Vec<(&'static str, String)>) -> Vec<Mutant> {
        let all = self.lines.iter().enumerate().filter(|(number, _)| !self.is_short_division(*number));
        let changes = all.flat_map(|(line, text)| change(text.trim()).into_iter().map(move |change| (line, change)));
        changes.enumerate().map(|(number, (line, (what, to)))| self.changed(line, what, to, number)).collect()
    }
}

impl Mutant {
    /// The same instructions under the name of another kernel with the same parameters.
    pub fn in_place_of(self, own: &str, other: &str) -> Self {
        Mutant { text: self.text.replace(own, other), ..self }
    }
}
