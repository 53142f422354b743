// SPDX-License-Identifier: GPL-2.0

//! Source lines of places in the kernel, from its debug information.
//!
//! The build ID of the running kernel decides which file is the right one. Only the kernel itself has lines: the debug
//! information of a module needs relocations.

use std::{
    collections::HashMap,
    env,
    fs::{
        self,
        File, //
    },
    path::{
        Path,
        PathBuf, //
    }, //
};

use addr2line::Loader;
use object::{
    read::ReadCache,
    Object,
    ObjectSection,
    ObjectSymbol, //
};

use crate::failure::note;

/// The type of a note with a build ID. C: `NT_GNU_BUILD_ID`.
const BUILD_ID: u32 = 3;

/// How many bytes before a return instruction can have the line that leads to it.
const MAX_BACK: u64 = 64;

/// The debug information of the running kernel.
pub struct Lines {
    loader: Loader,
    symbols: HashMap<String, u64>,
    /// How the names of all source files start.
    directory: String,
}

impl Lines {
    /// Opens the debug information. If there is none, the error is one line that says how to get it.
    pub fn open() -> Result<Self, String> {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let release = read("/proc/sys/kernel/osrelease");
        let release = release.trim();
        let id = fs::read("/sys/kernel/notes")
            .ok()
            .and_then(|notes| build_id(&notes));
        let Some(id) = id else {
            return Err("no source lines: the kernel has no build ID".into());
        };
        let found = candidates(release, &id, |name| env::var_os(name).map(PathBuf::from))
            .into_iter()
            .find_map(|path| Self::open_file(&path, &id));
        let Some(mut lines) = found else {
            return Err(format!(
                "no source lines: install linux-image-{release}-dbg, or run debuginfod-find debuginfo {}",
                hex(&id)
            ));
        };
        lines.set_directory("start_kernel", "init/main.c");
        Ok(lines)
    }

    /// `None` if the file has another build ID, or no lines.
    fn open_file(path: &Path, id: &[u8]) -> Option<Self> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let object = object::File::parse(&cache).ok()?;
        let has_lines = object
            .sections()
            .any(|section| matches!(section.name(), Ok(".debug_line" | ".zdebug_line")));
        if object.build_id().ok()?? != id || !has_lines {
            return None;
        }
        let symbols = object
            .symbols()
            .filter(|symbol| symbol.is_definition())
            .filter_map(|symbol| Some((symbol.name().ok()?, symbol.address())));
        Some(Self {
            loader: Loader::new(path).ok()?,
            symbols: unique(symbols),
            directory: String::new(),
        })
    }

    /// Learns how the names of source files start, from a function whose file is known.
    fn set_directory(&mut self, function: &str, file: &str) {
        let place = self.location(function, 0).map(|(file, _)| file);
        if let Some(directory) = place.as_ref().and_then(|place| place.strip_suffix(file)) {
            self.directory = directory.into();
        }
    }

    /// The place in the function itself, also if the instruction belongs to an inlined function.
    fn location(&self, function: &str, offset: u64) -> Option<(String, u32)> {
        let address = self.symbols.get(function)?.checked_add(offset)?;
        let mut frames = self.loader.find_frames(address).ok()?;
        let mut found = None;
        // The first frame is the innermost inlined function.
        while let Some(frame) = frames.next().ok()? {
            found = frame.location.or(found);
        }
        let location = found?;
        Some((location.file?.into(), location.line?))
    }

    /// The line of the return instruction at `FUNCTION+OFFSET`, as `FILE:LINE`. A size behind the offset does not
    /// matter.
    ///
    /// Compilers give the line of the closing brace to most returns. So the last other line before it in the code
    /// follows: mostly the line of the `return` statement.
    pub fn find_return(&self, place: &str) -> Option<String> {
        let (function, offset) = split_place(place)?;
        let (file, line) = self.location(function, offset)?;
        let before = (1..=MAX_BACK.min(offset))
            .filter_map(|back| self.location(function, offset - back))
            .find(|place| *place != (file.clone(), line))
            .filter(|place| place.0 == file);
        let file = file.strip_prefix(&self.directory).unwrap_or(&file);
        let before = before.map_or(String::new(), |(_, line)| format!(" after {line}"));
        Some(format!("{file}:{line}{before}"))
    }
}

/// The symbols whose names belong to one address. The lines of another function would be wrong.
fn unique<'s>(symbols: impl Iterator<Item = (&'s str, u64)>) -> HashMap<String, u64> {
    let mut found: HashMap<&str, Option<u64>> = HashMap::new();
    for (name, address) in symbols {
        let place = found.entry(name).or_insert(Some(address));
        if *place != Some(address) {
            *place = None;
        }
    }
    found
        .into_iter()
        .filter_map(|(name, address)| Some((name.into(), address?)))
        .collect()
}

/// Opens the debug information. If there is none, says how to get it.
pub fn open_or_note() -> Option<Lines> {
    Lines::open()
        .map_err(|reason| note(format!("rkprobe: {reason}")))
        .ok()
}

/// Splits `FUNCTION+0xOFFSET[/0xSIZE]`. `None` for a function of a module, which has ` [MODULE]` behind it.
fn split_place(place: &str) -> Option<(&str, u64)> {
    let place = place.trim();
    if place.contains(' ') {
        return None;
    }
    let (function, offset) = place.split_once('+')?;
    let offset = offset.split('/').next()?.strip_prefix("0x")?;
    Some((function, u64::from_str_radix(offset, 16).ok()?))
}

/// The files that can contain the debug information. The best file comes first.
fn candidates(
    release: &str,
    id: &[u8],
    variable: impl Fn(&str) -> Option<PathBuf>,
) -> Vec<PathBuf> {
    let id = hex(id);
    let (start, rest) = id.split_at(2.min(id.len()));
    let mut paths: Vec<PathBuf> = [
        format!("/usr/lib/debug/.build-id/{start}/{rest}.debug"),
        format!("/usr/lib/debug/boot/vmlinux-{release}"),
        format!("/usr/lib/debug/lib/modules/{release}/vmlinux"),
        format!("/usr/lib/debug/usr/lib/modules/{release}/vmlinux"),
        format!("/lib/modules/{release}/build/vmlinux"),
    ]
    .map(PathBuf::from)
    .into();
    let caches = [
        variable("DEBUGINFOD_CACHE_PATH"),
        variable("XDG_CACHE_HOME").map(|path| path.join("debuginfod_client")),
        variable("HOME").map(|path| path.join(".cache/debuginfod_client")),
        variable("HOME").map(|path| path.join(".debuginfod_client_cache")),
    ];
    let files = caches.into_iter().flatten();
    paths.extend(files.map(|cache| cache.join(&id).join("debuginfo")));
    paths
}

/// The build ID among notes, as the kernel shows its own.
fn build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    loop {
        let word = |at: usize| {
            let bytes = notes.get(at..at + 4)?;
            Some(u32::from_ne_bytes(bytes.try_into().ok()?))
        };
        let name_bytes = word(0)? as usize;
        let bytes = word(4)? as usize;
        let start = 12 + name_bytes.next_multiple_of(4);
        let contents = notes.get(start..start.checked_add(bytes)?)?;
        if word(8)? == BUILD_ID && notes.get(12..12 + name_bytes)? == b"GNU\0" {
            return Some(contents.into());
        }
        notes = notes.get(start + bytes.next_multiple_of(4)..)?;
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        text += &format!("{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(always)]
    fn inlined(number: u32) -> u32 {
        std::hint::black_box(number).wrapping_mul(3)
    }

    /// This test is a program with debug information, and this is one of its functions.
    #[no_mangle]
    #[inline(never)]
    extern "C" fn rkprobe_function_with_lines(number: u32) -> u32 {
        inlined(number) + line!()
    }

    fn own_id() -> Vec<u8> {
        let bytes = fs::read(env::current_exe().unwrap()).unwrap();
        let object = object::File::parse(&*bytes).unwrap();
        let id = object.build_id().unwrap();
        id.expect("the linker writes a build ID").into()
    }

    #[test]
    fn finds_the_line_of_an_instruction() {
        let inside = rkprobe_function_with_lines(0);
        let path = env::current_exe().unwrap();
        let mut lines = Lines::open_file(&path, &own_id()).unwrap();
        let name = "rkprobe_function_with_lines";
        let whole = lines.find_return(&format!("{name}+0x0/0x10")).unwrap();
        assert!(whole.contains("src/lines.rs:"), "{whole}");
        lines.set_directory(name, "src/lines.rs");
        let found: Vec<String> = (0..200)
            .filter_map(|offset| lines.find_return(&format!("{name}+{offset:#x}")))
            .collect();
        let (first, body, end) = (inside - 1, inside, inside + 1);
        assert_eq!(found[0], format!("src/lines.rs:{first}"));
        let at = |line: &str| found.contains(&format!("src/lines.rs:{line}"));
        assert!(at(&format!("{body} after {first}")), "{found:?}");
        assert!(at(&format!("{end} after {body}")), "{found:?}");
        assert_eq!(lines.find_return("no_such_function+0x0"), None);
    }

    #[test]
    fn takes_the_file_with_the_right_build_id_alone() {
        let path = env::current_exe().unwrap();
        let mut id = own_id();
        id[0] ^= 1;
        assert!(Lines::open_file(&path, &id).is_none());
        assert!(Lines::open_file(Path::new("/no/such/file"), &id).is_none());
        assert!(Lines::open_file(Path::new("/proc/self/maps"), &id).is_none());
    }

    #[test]
    fn leaves_out_names_of_several_functions() {
        let all = [("a", 1), ("show", 2), ("show", 3), ("show", 2), ("a", 1)];
        let symbols = unique(all.into_iter());
        assert_eq!(symbols, HashMap::from([("a".into(), 1)]));
    }

    #[test]
    fn looks_in_the_places_of_packages_and_of_debuginfod() {
        let variable = |name: &str| (name == "HOME").then(|| PathBuf::from("/root"));
        let paths = candidates("7.1", &[0xab, 0xcd, 0x0e], variable);
        for path in [
            "/usr/lib/debug/.build-id/ab/cd0e.debug",
            "/usr/lib/debug/boot/vmlinux-7.1",
            "/root/.cache/debuginfod_client/abcd0e/debuginfo",
        ] {
            assert!(paths.contains(&PathBuf::from(path)), "{path}");
        }
    }

    #[test]
    fn reads_places_and_notes() {
        assert_eq!(split_place("f+0x1a/0x20"), Some(("f", 26)));
        assert_eq!(split_place("f.cold+0x2 "), Some(("f.cold", 2)));
        for wrong in ["f", "f+1", "f+0x1 [m]", "f+0x1/0x2 [m]", ""] {
            assert_eq!(split_place(wrong), None, "{wrong}");
        }
        let mut notes = Vec::new();
        for (name, kind, contents) in [(&b"Xen\0"[..], 3, &b"abc"[..]), (b"GNU\0", 3, b"12345")] {
            for word in [name.len() as u32, contents.len() as u32, kind] {
                notes.extend_from_slice(&word.to_ne_bytes());
            }
            notes.extend_from_slice(name);
            notes.extend_from_slice(contents);
            notes.resize(notes.len().next_multiple_of(4), 0);
        }
        assert_eq!(build_id(&notes).unwrap(), b"12345");
        assert_eq!(build_id(&notes[..20]), None);
        assert_eq!(build_id(&notes[..30]), None);
        assert_eq!(build_id(&[0xff; 12]), None);
    }
}
