// SPDX-License-Identifier: GPL-2.0

//! The functions of programs, for the stack traces that the kernel takes of them.
//!
//! The kernel records addresses. The files of a process say what is there, but a process can have ended when the tool
//! reads the record. So an event of the run records each mapping of code, as perf does it.

use std::{
    cell::OnceCell,
    collections::{
        BTreeMap,
        HashMap, //
    },
    fs,
    os::unix::fs::MetadataExt,
    path::{
        Path,
        PathBuf, //
    },
    time::{
        Duration,
        Instant, //
    }, //
};

use blazesym::{
    symbolize::{
        source::{
            Elf,
            Process,
            Source, //
        },
        Input,
        Symbolizer, //
    },
    Pid, //
};
use rustix::fs::makedev;

use crate::{
    failure::Result,
    flags,
    instance::Instance,
    probes,
    record::Record,
    tracefs::Tracefs, //
};

/// The event that records mappings.
pub const EVENT: &str = "mappings";
/// The most directories of a path that the event records.
const MAX_DEPTH: usize = 8;
/// The most processes whose mappings are kept, unless more of them live.
const MAX_PROCESSES: usize = 4096;

/// How long the mappings of a process are taken for those that it has.
const MOMENT: Duration = Duration::from_millis(100);

/// Makes the event that records the mappings of code, and enables it. A kernel that refuses the event has the symbols of
/// the processes that live when the tool reads their records.
pub fn watch(tracefs: &Tracefs, instance: &Instance<'_>) -> Result {
    if probes::define(tracefs, &[command(instance.group())]).is_ok() {
        tracefs.write(&instance.event_file(EVENT, "enable"), "1")?;
    }
    Ok(())
}

/// The kernel calls `perf_event_mmap()` for each new mapping.
fn command(group: &str) -> String {
    const FILE: &str = "vma->vm_file->f_path.dentry";
    // C: VM_EXEC.
    const EXECUTABLE: &str = "vma->vm_flags & 4";

    let mut command = format!(
        "f:{group}/{EVENT} perf_event_mmap start=vma->vm_start:x64 end=vma->vm_end:x64 page=vma->vm_pgoff:u64 \
         device={FILE}->d_sb->s_dev:u32"
    );
    let mut dentry = FILE.to_string();
    for depth in 0..=MAX_DEPTH {
        command += &format!(" name{depth}={dentry}->d_name.name:string");
        dentry += "->d_parent";
    }
    format!("{command} if {EXECUTABLE}")
}

/// A part of a file in the memory of a process.
#[derive(Debug, PartialEq)]
struct Mapping {
    end: u64,
    /// The offset in the file.
    offset: u64,
    /// The path as the process sees it, or a name such as `[vdso]`. Empty for memory without a file.
    name: String,
    /// The path of the file for the tool. `None` if there is no file.
    file: Option<PathBuf>,
}

/// The mappings of a process by their start.
#[derive(Debug, Default)]
struct Mappings(BTreeMap<u64, Mapping>);

impl Mappings {
    /// Parses `/proc/PID/maps`. Takes the mappings of code only.
    fn parse(text: &str, directory: &str) -> Self {
        Self(
            text.lines()
                .filter_map(|line| parse(line, directory))
                .collect(),
        )
    }

    /// Adds a mapping, which replaces those in the same place.
    fn add(&mut self, start: u64, mapping: Mapping) {
        self.0
            .retain(|other, old| *other >= mapping.end || old.end <= start);
        self.0.insert(start, mapping);
    }

    /// The mapping of an address, and its start.
    fn find(&self, address: u64) -> Option<(u64, &Mapping)> {
        let (start, mapping) = self.0.range(..=address).next_back()?;
        (address < mapping.end).then_some((*start, mapping))
    }
}

/// A line `START-END r-xp OFFSET MAJOR:MINOR INODE PATH` of `/proc/PID/maps`, if it is code.
fn parse(line: &str, directory: &str) -> Option<(u64, Mapping)> {
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let mut words = line.splitn(6, ' ');
    let range = words.next()?;
    let (start, end) = range.split_once('-')?;
    if !words.next()?.contains('x') {
        return None;
    }
    let offset = hex(words.next()?)?;
    let (major, minor) = words.next()?.split_once(':')?;
    let device = makedev(
        u32::try_from(hex(major)?).ok()?,
        u32::try_from(hex(minor)?).ok()?,
    );
    let inode: u64 = words.next()?.parse().ok()?;
    let name = words.next().unwrap_or("").trim();
    let is_same = || {
        let found = fs::metadata(name).map(|file| (file.dev(), file.ino()));
        found.is_ok_and(|found| found == (device, inode))
    };
    let file = name.starts_with('/').then(|| match is_same() {
        true => PathBuf::from(name),
        // A file that was removed, or is in another mount namespace.
        false => Path::new(directory).join("map_files").join(range),
    });
    let mapping = Mapping {
        end: hex(end)?,
        offset,
        name: name.into(),
        file,
    };
    Some((hex(start)?, mapping))
}

/// The mapping that a record of the event describes, and its start.
fn recorded(record: &Record<'_>, mounts: &str) -> Option<(u64, Mapping)> {
    let hex = |name| {
        let digits = record.field(name)?.strip_prefix("0x")?;
        u64::from_str_radix(digits, 16).ok()
    };
    let number = |name| record.field(name)?.parse::<u64>().ok();
    let mut names = Vec::new();
    for depth in 0..=MAX_DEPTH {
        let name = record.field(&format!("name{depth}"))?;
        match name.strip_prefix('"')?.strip_suffix('"')? {
            // The directory that has no parent.
            "/" => break,
            name => names.push(name),
        }
        if depth == MAX_DEPTH {
            return None;
        }
    }
    names.reverse();
    let path = find_path(mounts, number("device")?, &names.join("/"))?;
    let mapping = Mapping {
        end: hex("end")?,
        offset: number("page")? * 4096,
        file: Some(PathBuf::from(&path)),
        name: path,
    };
    Some((hex("start")?, mapping))
}

/// The path of a file in the file system of a device, from `/proc/self/mountinfo`. The last mount of a path hides others.
fn find_path(mounts: &str, device: u64, inside: &str) -> Option<String> {
    let device = flags::device(device);
    let mounts = mounts.lines().rev().filter_map(|line| {
        let mut words = line.split(' ').skip(2);
        let is_it = words.next()? == device;
        let (root, point) = (words.next()?, words.next()?);
        is_it.then_some((root.trim_end_matches('/'), point.trim_end_matches('/')))
    });
    let path = format!("/{inside}");
    mounts
        .filter_map(|(root, point)| {
            let rest = path.strip_prefix(root)?;
            rest.starts_with('/').then(|| format!("{point}{rest}"))
        })
        .find(|path| Path::new(path).exists())
}

/// The programs of a run.
pub struct Programs {
    symbolizer: Symbolizer,
    mounts: OnceCell<String>,
    /// The mappings that the event has recorded, by process.
    recorded: HashMap<u32, Mappings>,
    /// The mappings of a process as they were a moment ago.
    live: Option<(u32, Instant, Mappings)>,
}

impl Programs {
    /// No program is known yet.
    pub fn new() -> Self {
        Self {
            symbolizer: Symbolizer::builder()
                .enable_code_info(false)
                .enable_inlined_fns(false)
                .build(),
            mounts: OnceCell::new(),
            recorded: HashMap::new(),
            live: None,
        }
    }

    /// Takes a record of the event.
    pub fn take(&mut self, record: &Record<'_>) {
        let read = || fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let found = recorded(record, self.mounts.get_or_init(read));
        let (Some((start, mapping)), Ok(pid)) = (found, record.pid.parse()) else {
            return;
        };
        if self.recorded.len() >= MAX_PROCESSES && !self.recorded.contains_key(&pid) {
            self.recorded
                .retain(|pid, _| Path::new(&format!("/proc/{pid}")).exists());
        }
        self.recorded.entry(pid).or_default().add(start, mapping);
    }

    /// The functions at addresses of a thread, as `FUNCTION+0x1 (PATH)`. What is not known is `PATH+0x1`, or an address.
    pub fn frames(&mut self, thread: u32, addresses: &[u64]) -> Vec<String> {
        let recorded = self.recorded.get(&thread);
        let is_recorded = |address: &u64| recorded.is_some_and(|all| all.find(*address).is_some());
        if !addresses.iter().all(is_recorded) {
            self.read(thread);
        }
        let of_address = |address: &u64| self.frame(thread, *address);
        addresses.iter().map(of_address).collect()
    }

    /// Reads the mappings of a thread, unless it has done so a moment ago.
    fn read(&mut self, thread: u32) {
        let is_new =
            |(of, read, _): &(u32, Instant, Mappings)| *of == thread && read.elapsed() < MOMENT;
        if !self.live.as_ref().is_some_and(is_new) {
            let directory = format!("/proc/{thread}");
            let text = fs::read_to_string(format!("{directory}/maps")).unwrap_or_default();
            let mappings = Mappings::parse(&text, &directory);
            self.live = Some((thread, Instant::now(), mappings));
        }
    }

    fn frame(&self, thread: u32, address: u64) -> String {
        let recorded = self.recorded.get(&thread);
        let live = self.live.iter().filter(|(of, ..)| *of == thread);
        let mut all = recorded.into_iter().chain(live.map(|(.., live)| live));
        match all.find_map(|all| all.find(address)) {
            Some((start, mapping)) => self.in_mapping(thread, address, start, mapping),
            None => format!("{address:#x}"),
        }
    }

    fn in_mapping(&self, thread: u32, address: u64, start: u64, mapping: &Mapping) -> String {
        let offset = address - start + mapping.offset;
        let found = match &mapping.file {
            Some(file) => {
                let source = Source::Elf(Elf::new(file));
                self.symbolizer
                    .symbolize_single(&source, Input::FileOffset(offset))
            }
            // The code of a compiler at run time, and that of the kernel for programs.
            None => {
                let source = Source::Process(Process::new(Pid::from(thread)));
                self.symbolizer
                    .symbolize_single(&source, Input::AbsAddr(address))
            }
        };
        let name = match &*mapping.name {
            "" => String::new(),
            name => format!(" ({name})"),
        };
        match found.ok().and_then(|symbol| symbol.into_sym()) {
            Some(symbol) => format!("{}+{:#x}{name}", symbol.name, symbol.offset),
            None if mapping.name.is_empty() => format!("{address:#x}"),
            None => format!("{}+{offset:#x}", mapping.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        hint::black_box,
        process, //
    };

    use rustix::fs::{
        major,
        minor, //
    };

    use super::*;

    #[inline(never)]
    fn rkprobe_function_of_a_program() -> u64 {
        black_box(1)
    }

    #[test]
    fn knows_the_functions_of_a_live_process() {
        black_box(rkprobe_function_of_a_program());
        let address = rkprobe_function_of_a_program as usize as u64;
        let frames = Programs::new().frames(process::id(), &[address, 1]);
        assert!(
            frames[0].contains("rkprobe_function_of_a_program+0x0 (/"),
            "{frames:?}"
        );
        assert_eq!(frames[1], "0x1");
        assert_eq!(Programs::new().frames(0, &[16]), ["0x10"]);
    }

    /// The mappings of this test, as records of the event.
    #[test]
    fn knows_the_functions_of_a_process_that_has_ended() {
        let address = rkprobe_function_of_a_program as usize as u64;
        let all = Mappings::parse(
            &fs::read_to_string("/proc/self/maps").unwrap(),
            "/proc/self",
        );
        let (start, mapping) = all.find(address).unwrap();
        let device = fs::metadata(&mapping.name).unwrap().dev();
        let device = (major(device) << 20) | minor(device);
        let mut fields = format!(
            "start={start:#x} end={:#x} page={} device={device}",
            mapping.end,
            mapping.offset / 4096
        );
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        // The path in the file system of the device.
        let device = format!("{}:{}", device >> 20, device & 0xf_ffff);
        let mount = mounts.lines().rev().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let rest = Path::new(&mapping.name).strip_prefix(words[4]).ok()?;
            let root = Path::new(words[3]).join(rest);
            (words[2] == device).then(|| root.to_string_lossy().into_owned())
        });
        let Some(path) = mount else {
            return;
        };
        let mut names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        names.reverse();
        names.resize(MAX_DEPTH + 1, "/");
        for (depth, name) in names.iter().enumerate() {
            fields += &format!(" name{depth}=\"{name}\"");
        }
        let line = format!("cat-0 [000] ..... 1.0: {EVENT}: (perf_event_mmap+0x4/0x10) {fields}");
        let mut programs = Programs::new();
        programs.take(&Record::parse(&line, EVENT).unwrap());
        let frames = programs.frames(0, &[address]);
        assert!(
            frames[0].contains("rkprobe_function_of_a_program+0x0 (/"),
            "{frames:?}"
        );
        programs.take(&Record::parse(&line.replace("page=", "page=9"), EVENT).unwrap());
        assert!(!programs.frames(0, &[address])[0].contains("of_a_program+0x0 "));
    }

    #[test]
    fn a_mapping_replaces_others_in_its_place() {
        let mapping = |end, name: &str| Mapping {
            end,
            offset: 0,
            name: name.into(),
            file: None,
        };
        let mut all = Mappings::default();
        all.add(10, mapping(20, "a"));
        all.add(20, mapping(30, "b"));
        all.add(15, mapping(20, "c"));
        let name = |all: &Mappings, address| Some(all.find(address)?.1.name.clone());
        assert_eq!(name(&all, 12), None);
        assert_eq!(name(&all, 15).unwrap(), "c");
        assert_eq!(name(&all, 29).unwrap(), "b");
        assert_eq!(name(&all, 30), None);
        let text = "7f0000-7f1000 r--p 0 00:01 5 /bin/sh\n7f1000-7f2000 r-xp 00001000 00:01 5                  /bin/sh\n\
            7fff0000-7fff1000 r-xp 00000000 00:00 0                          [vdso]\n";
        let all = Mappings::parse(text, "/proc/7");
        let (start, found) = all.find(0x7f1800).unwrap();
        assert_eq!(
            (start, found.offset, &*found.name),
            (0x7f1000, 4096, "/bin/sh")
        );
        let file = found.file.as_deref().unwrap();
        assert_eq!(file, Path::new("/proc/7/map_files/7f1000-7f2000"));
        assert_eq!(name(&all, 0x7fff0000).unwrap(), "[vdso]");
    }

    #[test]
    fn finds_the_mount_of_a_file() {
        let mounts = "1 0 0:2 / / rw - rootfs rootfs rw\n2 1 8:1 /sub /proc rw - ext4 x rw\n";
        let path = |device, inside| find_path(mounts, device, inside);
        assert_eq!(path(2, "proc/version").unwrap(), "/proc/version");
        assert_eq!(path((8 << 20) | 1, "sub/version").unwrap(), "/proc/version");
        assert_eq!(path((8 << 20) | 1, "version"), None);
        assert_eq!(path(7, "proc/version"), None);
    }

    #[test]
    fn the_kernel_can_parse_the_command() {
        assert!(probes::check_syntax(&command("g")).is_ok());
    }
}
