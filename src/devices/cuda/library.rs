//! Whether the file that the system would load as the driver library is whole, asked before it is loaded.
//!
//! The loader maps a library by what its header says and trusts the bytes to be there: where a file is cut short, as a
//! broken installation leaves it, touching what is missing ends the process with SIGBUS. No loader tells which file it
//! would take, so its documented order is followed here: `LD_LIBRARY_PATH`, the cache, the usual directories.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Where drivers are installed that the loader's cache does not know of yet.
const USUAL: [&str; 7] = [
    "/lib64",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib",
];

/// `e_machine` of libraries that this process can load; 0, of none, where it is not known here.
const MACHINE: u16 = if cfg!(target_arch = "x86_64") {
    62
} else if cfg!(target_arch = "aarch64") {
    183
} else {
    0
};

/// What the loader would make of a file.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// It would look further: there is no such file, or it is for another processor.
    Nothing,
    /// It would give up on the name: the file is no library.
    NoLibrary,
    /// Every byte that the headers speak of is there.
    Whole,
    /// It has fewer bytes than its headers speak of.
    CutShort { length: u64, needed: u64 },
}

/// Why the driver library must not be loaded; none if it is whole or if there is none.
pub(super) fn refusal() -> Option<String> {
    let path = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let cache = fs::read("/etc/ld.so.cache").unwrap_or_default();
    let names = cudarc::get_lib_name_candidates("cuda");
    let (path, length, needed) = cut_short(&names, |name| places(name, &path, &cache))?;
    Some(format!("the CUDA driver library {} is cut short: it has {length} bytes of {needed}", path.display()))
}

/// The first file of the driver library's name where the loader looks, whether or not it can be loaded.
pub(super) fn first_of_the_name() -> Option<PathBuf> {
    let path = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let cache = fs::read("/etc/ld.so.cache").unwrap_or_default();
    let names = cudarc::get_lib_name_candidates("cuda");
    names.iter().flat_map(|name| places(name, &path, &cache)).find(|place| place.is_file())
}

/// The first file that would be loaded under one of the names, with its length and the one it should have, if that file
/// is cut short.
fn cut_short(names: &[String], places: impl Fn(&str) -> Vec<PathBuf>) -> Option<(PathBuf, u64, u64)> {
    for name in names {
        for place in places(name) {
            match inspect(&place) {
                Found::Nothing => {}
                Found::NoLibrary => break,
                Found::Whole => return None,
                Found::CutShort { length, needed } => return Some((place, length, needed)),
            }
        }
    }
    None
}

/// The files that a name can stand for, in the loader's order.
fn places(name: &str, library_path: &str, cache: &[u8]) -> Vec<PathBuf> {
    let told =
        library_path.split([':', ';']).filter(|folder| !folder.is_empty()).map(|folder| Path::new(folder).join(name));
    // The cache ends in a table of paths, each followed by a zero byte; nothing else in it looks like one.
    let cached = cache.split(|&byte| byte == 0).filter_map(|text| std::str::from_utf8(text).ok()).map(PathBuf::from);
    let cached = cached.filter(|path| path.is_absolute() && path.file_name().is_some_and(|last| last == name));
    told.chain(cached).chain(USUAL.iter().map(|folder| Path::new(folder).join(name))).collect()
}

fn inspect(path: &Path) -> Found {
    // A pipe or a device of that name is not opened, which could wait for ever.
    if !fs::metadata(path).is_ok_and(|about| about.is_file()) {
        return Found::Nothing;
    }
    let Ok(mut file) = File::open(path) else { return Found::Nothing };
    let Ok(length) = file.metadata().map(|about| about.len()) else { return Found::Nothing };
    let mut header = [0; 64];
    if file.read_exact(&mut header).is_err() || header[..4] != *b"\x7fELF" {
        return Found::NoLibrary;
    }
    // Sixty-four bits and the byte order of this process; headers of another kind are laid out differently.
    let order = if cfg!(target_endian = "little") { 1 } else { 2 };
    if header[4] != 2 || header[5] != order || number::<2>(&header, 18) != u64::from(MACHINE) {
        return Found::Nothing;
    }
    match needed(&mut file, &header) {
        Some(needed) if needed <= length => Found::Whole,
        Some(needed) => Found::CutShort { length, needed },
        None => Found::NoLibrary,
    }
}

/// The length that an ELF file must have for its program headers, what they load, and its section table; none if the
/// headers cannot be those of a library.
fn needed(file: &mut File, header: &[u8; 64]) -> Option<u64> {
    const PROGRAM_HEADER: u64 = 56;
    const LOADED: u64 = 1;
    let (programs, program_size, program_count) =
        (number::<8>(header, 32), number::<2>(header, 54), number::<2>(header, 56));
    let (sections, section_size, section_count) =
        (number::<8>(header, 40), number::<2>(header, 58), number::<2>(header, 60));
    if program_size != PROGRAM_HEADER {
        return None;
    }
    let mut needed = programs.checked_add(program_count * program_size)?;
    needed = needed.max(sections.checked_add(section_count * section_size)?);
    file.seek(SeekFrom::Start(programs)).ok()?;
    let mut table = Vec::new();
    file.take(program_count * program_size).read_to_end(&mut table).ok()?;
    // A table that is itself cut short is found by what it needs.
    for program in table.chunks_exact(PROGRAM_HEADER as usize) {
        if number::<4>(program, 0) == LOADED {
            needed = needed.max(number::<8>(program, 8).checked_add(number::<8>(program, 32))?);
        }
    }
    Some(needed)
}

/// `SIZE` bytes from `at` on as a number of the processor's byte order; 0 past the end.
fn number<const SIZE: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut wide = [0; 8];
    let Some(field) = bytes.get(at..at + SIZE) else { return 0 };
    let start = if cfg!(target_endian = "little") { 0 } else { 8 - SIZE };
    wide[start..start + SIZE].copy_from_slice(field);
    u64::from_ne_bytes(wide)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of this test alone, removed at its end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("firelu-library-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, bytes).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// A file that the system did load: this test.
    fn library() -> Vec<u8> {
        fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn a_file_is_whole_or_cut_short() {
        let (folder, whole) = (Folder::new("whole"), library());
        assert_eq!(inspect(&folder.file("whole", &whole)), Found::Whole);
        for length in [whole.len() - 1, whole.len() / 2, 4096, 64] {
            let found = inspect(&folder.file("cut", &whole[..length]));
            assert!(
                matches!(found, Found::CutShort { length: told, .. } if told == length as u64),
                "{length}: {found:?}"
            );
        }
    }

    #[test]
    fn what_is_no_library_or_not_for_this_processor_is_told_apart() {
        let (folder, whole) = (Folder::new("kinds"), library());
        assert_eq!(inspect(&folder.0.join("absent")), Found::Nothing);
        assert_eq!(inspect(&folder.0), Found::Nothing, "a folder");
        assert_eq!(inspect(&folder.file("empty", b"")), Found::NoLibrary);
        assert_eq!(inspect(&folder.file("text", b"not a library")), Found::NoLibrary);
        assert_eq!(inspect(&folder.file("short", &whole[..63])), Found::NoLibrary);
        for (at, value) in [(4, 1), (18, 243)] {
            let mut other = whole[..4096].to_vec();
            other[at] = value; // thirty-two bits; RISC-V
            assert_eq!(inspect(&folder.file("other", &other)), Found::Nothing);
        }
        let mut huge = whole[..4096].to_vec();
        huge[40..48].fill(0xff); // the section table at the end of all addresses
        assert_eq!(inspect(&folder.file("huge", &huge)), Found::NoLibrary);
    }

    #[test]
    fn the_file_that_would_be_loaded_is_the_one_that_counts() {
        let (folder, whole) = (Folder::new("order"), library());
        let cut = folder.file("cut", &whole[..4096]);
        let whole = folder.file("whole", &whole);
        let text = folder.file("text", b"not a library");
        let absent = folder.0.join("absent");
        let names = ["first".to_string(), "second".to_string()];
        let judge = |first: &[&PathBuf], second: &[&PathBuf]| {
            let places =
                |name: &str| if name == "first" { first } else { second }.iter().map(|p| (*p).clone()).collect();
            cut_short(&names, places).map(|(path, ..)| path)
        };
        assert_eq!(judge(&[&absent, &cut, &whole], &[]), Some(cut.clone()));
        assert_eq!(judge(&[&whole, &cut], &[&cut]), None);
        assert_eq!(judge(&[&absent], &[&cut]), Some(cut.clone()));
        assert_eq!(judge(&[&text, &whole], &[&cut]), Some(cut.clone()), "a text ends the search for its name");
        assert_eq!(judge(&[], &[&absent]), None);
    }

    #[test]
    fn places_are_in_the_order_of_the_loader() {
        let cache = b"glibc-ld.so.cache1.1\0\x01\xff\0libcuda.so.1\0/opt/driver/libcuda.so.1\0/opt/driver/libcuda.so\0";
        let found = places("libcuda.so.1", "/one:/two;:/three", cache);
        let expected = ["/one/libcuda.so.1", "/two/libcuda.so.1", "/three/libcuda.so.1", "/opt/driver/libcuda.so.1"];
        assert_eq!(found[..4], expected.map(PathBuf::from));
        assert_eq!(found.len(), 4 + USUAL.len());
    }
}
