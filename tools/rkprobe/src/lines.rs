// SPDX-License-Identifier: GPL-2.0

//! Source lines of places in the kernel and its modules, from their debug information.
//!
//! The build ID of the running kernel, or of the loaded module, decides which file is the right one.

use std::{
    collections::{
        BTreeSet,
        HashMap, //
    },
    fs::{
        self,
        File, //
    },
    ops::Range,
    os::fd::AsRawFd,
    path::Path, //
};

use addr2line::Loader;
use object::{
    read::ReadCache,
    Object,
    ObjectKind,
    ObjectSection, //
};

use crate::{
    debug_files::{
        source_directory,
        Origin,
        Sought, //
    },
    dwarf,
    failure::note,
    relocate,
    sys, //
};

/// How many bytes before a return instruction can have the line that leads to it.
const MAX_BACK: u64 = 64;

/// The debug information of the running kernel or of a module.
struct Image {
    loader: Loader,
    symbols: HashMap<String, u64>,
    /// The addresses of all symbols, in order.
    starts: BTreeSet<u64>,
    /// How the names of all source files start.
    directory: String,
}

impl Image {
    /// Opens the debug information of a module, or of the kernel if `module` is empty. If there is none, the error is
    /// one line that says how to get it.
    fn open(module: &str, origin: Origin) -> Result<Self, String> {
        let (sought, mut image) = Sought::open(module, origin, Self::open_file)?;
        match module {
            "" => image.set_directory("start_kernel", "init/main.c"),
            _ => {
                let file = sought.module_file.as_deref();
                image.set_module_directory(file.and_then(source_directory));
            }
        }
        Ok(image)
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
        let (loader, symbols) = if object.kind() == ObjectKind::Relocatable {
            let mut image = fs::read(path).ok()?;
            let symbols = relocate::place(&mut image)?.symbols;
            let file = sys::memory_file(&image).ok()?;
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            (Loader::new(path).ok()?, symbols)
        } else {
            (Loader::new(path).ok()?, dwarf::symbols(&object)?)
        };
        let symbols = symbols.iter().map(|(name, address)| (&**name, *address));
        Some(Self {
            loader,
            starts: symbols.clone().map(|(_, address)| address).collect(),
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

    /// Learns how the names of source files start, from any function of a module whose directory in the kernel's source
    /// is known.
    fn set_module_directory(&mut self, directory: Option<&str>) {
        let start = directory.and_then(|directory| {
            self.symbols.keys().find_map(|function| {
                let (file, _) = self.location(function, 0)?;
                let (path, name) = file.rsplit_once('/')?;
                let start = path.strip_suffix(directory)?;
                // Headers have directories of their own with the same name, such as include/net.
                let is_own = !name.ends_with(".h") && (start.is_empty() || start.ends_with('/'));
                is_own.then(|| start.to_owned())
            })
        });
        self.directory = start.unwrap_or_default();
    }

    /// The line of an instruction. If it belongs to an inlined function of a `.c` file, such as what `SYSCALL_DEFINE` makes of
    /// the body of a system call, the line is there. If it belongs to one of a header or a library, the line is where the
    /// function is called.
    fn location(&self, function: &str, offset: u64) -> Option<(String, u32)> {
        let address = self.symbols.get(function)?.checked_add(offset)?;
        let mut frames = self.loader.find_frames(address).ok()?;
        let mut found = None;
        // The first frame is the innermost inlined function.
        while let Some(frame) = frames.next().ok()? {
            let place = frame
                .location
                .and_then(|place| Some((place.file?, place.line?)));
            found = place.or(found);
            if place.is_some_and(|(file, _)| file.ends_with(".c")) {
                break;
            }
        }
        found.map(|(file, line)| (file.into(), line))
    }

    /// The name of a source file without the directory of the source.
    fn short<'f>(&self, file: &'f str) -> &'f str {
        file.strip_prefix(&self.directory).unwrap_or(file)
    }

    /// The offset where the next symbol starts. Of the last symbol, only the first byte is known.
    fn end(&self, function: &str) -> Option<u64> {
        let start = self.symbols.get(function)?;
        let next = self.starts.range(start + 1..).next();
        Some(next.map_or(1, |next| next - start))
    }

    /// The lines of the code at these offsets, with those of inlined functions.
    fn find_all(&self, function: &str, offsets: Range<u64>) -> Option<BTreeSet<(String, u32)>> {
        let start = self.symbols.get(function)?;
        let line = |offset| {
            let location = self
                .loader
                .find_location(start.checked_add(offset)?)
                .ok()??;
            let file = location.file?;
            Some((
                self.short(file).to_owned(),
                location.line.filter(|line| *line > 0)?,
            ))
        };
        Some(offsets.filter_map(line).collect())
    }

    fn line(&self, function: &str, offset: u64) -> Option<String> {
        let (file, line) = self.location(function, offset)?;
        Some(format!("{}:{line}", self.short(&file)))
    }

    fn find_return(&self, function: &str, offset: u64) -> Option<String> {
        let (file, line) = self.location(function, offset)?;
        let before = (1..=MAX_BACK.min(offset))
            .filter_map(|back| self.location(function, offset - back))
            .find(|place| *place != (file.clone(), line))
            .filter(|place| place.0 == file);
        let file = self.short(&file);
        let before = before.map_or(String::new(), |(_, line)| format!(" after {line}"));
        Some(format!("{file}:{line}{before}"))
    }
}

/// Why there are no source lines of the kernel. `None` if there are.
pub fn why_none() -> Option<String> {
    Image::open("", Origin::Here).err()
}

/// The debug information of the kernel and of modules.
pub struct Lines(HashMap<String, Image>);

impl Lines {
    /// Opens the debug information of these modules, and of the kernel if a name is empty. If there is none, says how
    /// to get it.
    pub fn open<'m>(modules: impl Iterator<Item = &'m str>) -> Self {
        let modules: BTreeSet<&str> = modules.collect();
        let open = |module: &str| match Image::open(module, Origin::Anywhere) {
            Ok(image) => Some((module.into(), image)),
            Err(reason) => {
                note(format!("rkprobe: {reason}"));
                None
            }
        };
        Self(modules.into_iter().filter_map(open).collect())
    }

    /// The line of the instruction at `FUNCTION+OFFSET` or `FUNCTION+OFFSET [MODULE]`, as `FILE:LINE`.
    pub fn find(&self, place: &str) -> Option<String> {
        let (function, offset, module) = split_place(place)?;
        self.0.get(module)?.line(function, offset)
    }

    /// The first line that the code from a place to `end` has, as for [`find_all`](Self::find_all).
    pub fn find_first(&self, place: &str, end: Option<&str>) -> Option<String> {
        let (image, function, mut offsets) = self.range(place, end)?;
        offsets.find_map(|offset| image.line(function, offset))
    }

    /// The last line that the code from a place to `end` has, as for [`find_all`](Self::find_all).
    pub fn find_last(&self, place: &str, end: Option<&str>) -> Option<String> {
        let (image, function, offsets) = self.range(place, end)?;
        offsets
            .rev()
            .find_map(|offset| image.line(function, offset))
    }

    /// The lines of the code from a place to `end`, or to the end of the function if that is not after the place in the
    /// same function.
    pub fn find_all(&self, place: &str, end: Option<&str>) -> BTreeSet<(String, u32)> {
        let found = self.range(place, end);
        found
            .and_then(|(image, function, offsets)| image.find_all(function, offsets))
            .unwrap_or_default()
    }

    fn range<'p>(
        &self,
        place: &'p str,
        end: Option<&str>,
    ) -> Option<(&Image, &'p str, Range<u64>)> {
        let (function, offset, module) = split_place(place)?;
        let image = self.0.get(module)?;
        let end = end.and_then(split_place);
        let end = end.filter(|(of, end, _)| *of == function && *end > offset);
        let end = match end {
            Some((_, end, _)) => end,
            None => image.end(function)?,
        };
        Some((image, function, offset..end))
    }

    /// The line of the return instruction at `FUNCTION+OFFSET` or `FUNCTION+OFFSET [MODULE]`, as `FILE:LINE`. A size
    /// after the offset does not matter.
    ///
    /// Compilers give the line of the closing brace to most returns. So the last other line before it in the code
    /// follows: mostly the line of the `return` statement.
    pub fn find_return(&self, place: &str) -> Option<String> {
        let (function, offset, module) = split_place(place)?;
        self.0.get(module)?.find_return(function, offset)
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

/// Splits `FUNCTION+0xOFFSET[/0xSIZE]`, and ` [MODULE]` after it for a function of a module.
fn split_place(place: &str) -> Option<(&str, u64, &str)> {
    let place = place.trim();
    let (place, module) = match place.split_once(" [") {
        Some((place, module)) => (place, module.strip_suffix(']')?),
        None => (place, ""),
    };
    let (function, offset) = place.split_once('+')?;
    let offset = offset.split('/').next()?.strip_prefix("0x")?;
    Some((function, u64::from_str_radix(offset, 16).ok()?, module))
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        process, //
    };

    use crate::debug_files::has_other_id;

    use super::*;

    #[inline(always)]
    fn inlined(number: u32) -> u32 {
        std::hint::black_box(number).wrapping_mul(3)
    }

    /// This test is a program with debug information, and this is one of its functions.
    #[inline(never)]
    fn rkprobe_function_with_lines(number: u32) -> u32 {
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
        let mut image = Image::open_file(&path, &own_id()).unwrap();
        let mut names = image.symbols.keys();
        let name = names.find(|name| name.contains("rkprobe_function_with_lines"));
        let name = &name.unwrap().clone();
        let whole = image.find_return(name, 0).unwrap();
        assert!(whole.contains("src/lines.rs:"), "{whole}");
        image.set_directory(name, "src/lines.rs");
        let lines = Lines(HashMap::from([(String::new(), image)]));
        let found: Vec<String> = (0..200)
            .filter_map(|offset| lines.find_return(&format!("{name}+{offset:#x}")))
            .collect();
        let (first, body, end) = (inside - 1, inside, inside + 1);
        assert_eq!(found[0], format!("src/lines.rs:{first}"));
        let at = |line: &str| found.contains(&format!("src/lines.rs:{line}"));
        assert!(at(&format!("{body} after {first}")), "{found:?}");
        assert!(at(&format!("{end} after {body}")), "{found:?}");
        assert_eq!(lines.find_return("no_such_function+0x0"), None);
        let start = format!("{name}+0x0");
        assert_eq!(lines.find(&start), Some(format!("src/lines.rs:{first}")));
        let only = lines.find_all(&start, Some(&format!("{name}+0x1/0xc8")));
        assert_eq!(only, BTreeSet::from([("src/lines.rs".into(), first)]));
        for behind in [None, Some("another_function+0x1")] {
            let all = lines.find_all(&start, behind);
            let own = [first, body, end].map(|line| ("src/lines.rs".into(), line));
            assert!(own.iter().all(|line| all.contains(line)), "{all:?}");
            let beyond = |(file, line): &(String, u32)| file == "src/lines.rs" && *line > end;
            assert!(!all.iter().any(beyond), "{all:?}");
        }
        assert_eq!(lines.find_return(&format!("{name}+0x0 [module]")), None);
    }

    /// The lines of a module with the file fs/m/m.c, which can include m.h. The compiler that links this test links a
    /// relocatable file, as the kernel's build does for a module.
    fn module(name: &str, source: &str, header: &str) -> Lines {
        let directory = env::temp_dir().join(format!("rkprobe-{name}-{}", process::id()));
        fs::create_dir_all(directory.join("fs/m")).unwrap();
        fs::write(directory.join("fs/m/m.c"), source).unwrap();
        fs::write(directory.join("fs/m/m.h"), header).unwrap();
        let status = process::Command::new("cc")
            .args(["-g", "-O1", "-ffunction-sections", "-fno-inline"])
            .args(["-r", "-nostdlib", "-Wl,--build-id"])
            .args(["-o", "m.ko", "fs/m/m.c"])
            .current_dir(&directory)
            .status();
        let path = directory.join("m.ko");
        let bytes = fs::read(&path);
        let id = bytes.as_ref().ok().and_then(|bytes| {
            let object = object::File::parse(&**bytes).ok()?;
            Some(object.build_id().ok()??.to_vec())
        });
        let image = id.and_then(|id| Image::open_file(&path, &id));
        fs::remove_dir_all(&directory).unwrap();
        assert!(status.unwrap().success());
        let mut image = image.unwrap();
        image.set_module_directory(Some("fs/m"));
        Lines(HashMap::from([("m".into(), image)]))
    }

    #[test]
    fn finds_the_lines_of_a_module() {
        let source = "int one(int a) { return a + 1; }\n\nint two(int a) { return one(a) * 3; }\n";
        let lines = module("lines", source, "");
        assert_eq!(lines.find_return("one+0x0 [m]").unwrap(), "fs/m/m.c:1");
        assert_eq!(lines.find_return("two+0x0/0x9 [m]").unwrap(), "fs/m/m.c:3");
        assert_eq!(lines.find_return("two+0x0"), None);
    }

    #[test]
    fn an_inlined_function_of_a_source_file_has_its_own_lines() {
        const INLINE: &str = "static inline __attribute__((always_inline)) int";

        let header = format!("{INLINE} in_header(int *a) {{\n\treturn a[1] * 5;\n}}\n");
        let source = format!(
            "#include \"m.h\"\n{INLINE} in_source(int *a) {{\n\treturn a[2] * 7;\n}}\nint outer(int *a) {{\n\t\
             return in_header(a) +\n\t\tin_source(a);\n}}\n"
        );
        let lines = module("inlined", &source, &header);
        let found: BTreeSet<String> = (0..64)
            .filter_map(|offset| lines.find(&format!("outer+{offset:#x} [m]")))
            .collect();
        let has = |line: u32| found.contains(&format!("fs/m/m.c:{line}"));
        assert!(has(3) && has(6) && !has(7), "{found:?}");
        assert!(found.iter().all(|line| !line.contains("m.h")), "{found:?}");
    }

    #[test]
    fn takes_the_file_with_the_right_build_id_alone() {
        let path = env::current_exe().unwrap();
        let mut id = own_id();
        id[0] ^= 1;
        assert!(Image::open_file(&path, &id).is_none());
        assert!(has_other_id(&path, &id));
        assert!(!has_other_id(&path, &own_id()));
        for path in ["/no/such/file", "/proc/self/maps"].map(Path::new) {
            assert!(Image::open_file(path, &id).is_none());
            assert!(!has_other_id(path, &id));
        }
    }

    /// The kernel counts the calls of `read()` for each thread.
    #[test]
    fn reads_the_names_of_a_file_at_once() {
        let calls = || -> u64 {
            let text = fs::read_to_string("/proc/thread-self/io").unwrap();
            let count = text.lines().find_map(|line| line.strip_prefix("syscr: "));
            count.unwrap().parse().unwrap()
        };
        let (path, id) = (env::current_exe().unwrap(), own_id());
        let before = calls();
        let image = Image::open_file(&path, &id).unwrap();
        let calls = calls() - before;
        assert!(image.symbols.len() > 1000);
        assert!(calls < 300, "{calls} calls");
    }

    #[test]
    fn leaves_out_names_of_several_functions() {
        let all = [("a", 1), ("show", 2), ("show", 3), ("show", 2), ("a", 1)];
        let symbols = unique(all.into_iter());
        assert_eq!(symbols, HashMap::from([("a".into(), 1)]));
    }

    #[test]
    fn reads_places() {
        assert_eq!(split_place("f+0x1a/0x20"), Some(("f", 26, "")));
        assert_eq!(split_place("f.cold+0x2 "), Some(("f.cold", 2, "")));
        assert_eq!(split_place("f+0x1/0x2 [m]"), Some(("f", 1, "m")));
        for wrong in ["f", "f+1", "f+0x1 [m", ""] {
            assert_eq!(split_place(wrong), None, "{wrong}");
        }
    }
}
