// SPDX-License-Identifier: GPL-2.0

//! The files that can contain the debug information of the kernel or of a module.

use std::{
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

use object::{
    read::ReadCache,
    Object, //
};

use crate::debuginfod;

/// The type of a note with a build ID. C: `NT_GNU_BUILD_ID`.
const BUILD_ID: u32 = 3;

/// Where debug information can come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Origin {
    /// Only from files of this machine: the user has not asked for it.
    Here,
    /// Also from servers, if the user has named some.
    Anywhere,
}

/// The files that can contain the debug information of the running kernel or of a loaded module.
pub struct Sought {
    pub id: Vec<u8>,
    pub paths: Vec<PathBuf>,
    pub release: String,
    /// The [`module_file`].
    pub module_file: Option<String>,
}

impl Sought {
    /// Looks for a module, or for the kernel if `module` is empty. `None` if there is no build ID.
    fn of(module: &str) -> Option<Self> {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let release = release.trim().to_string();
        let notes = match module {
            "" => "/sys/kernel/notes".into(),
            _ => format!("/sys/module/{module}/notes/.note.gnu.build-id"),
        };
        let id = build_id(&fs::read(notes).ok()?)?;
        let mut paths = by_id(&id, |name| env::var_os(name).map(PathBuf::from));
        let mut file = None;
        if module.is_empty() {
            paths.extend(kernel_files(&release));
        } else {
            let modules = fs::read_to_string(format!("/lib/modules/{release}/modules.dep"));
            file = module_file(module, &modules.unwrap_or_default());
            paths.extend(file.iter().flat_map(|file| module_files(&release, file)));
        }
        Some(Self {
            id,
            paths,
            release,
            module_file: file,
        })
    }

    /// Reads the debug information of a module, or of the running kernel if `module` is empty, by the first file that
    /// `read` accepts for the build ID. If there is none, the error is one line that says how to get it.
    pub fn open<T>(
        module: &str,
        origin: Origin,
        read: impl Fn(&Path, &[u8]) -> Option<T>,
    ) -> Result<(Self, T), String> {
        let Some(sought) = Self::of(module) else {
            return Err(format!("no source lines{}: no build ID", of(module)));
        };
        let found = sought.paths.iter().find_map(|path| read(path, &sought.id));
        if let Some(found) = found {
            return Ok((sought, found));
        }
        if origin == Origin::Here || !debuginfod::has_servers() {
            return Err(sought.advice(module));
        }
        let fetched = debuginfod::fetch(&hex(&sought.id), owner(module)).and_then(|path| {
            let wrong = || format!("{} has no debug information of this build", path.display());
            read(&path, &sought.id).ok_or_else(wrong)
        });
        match fetched {
            Ok(found) => Ok((sought, found)),
            Err(why) => Err(format!("{why}. {}", sought.advice(module))),
        }
    }

    /// How to get the debug information that is in none of the files.
    fn advice(&self, module: &str) -> String {
        let package = format!("linux-image-{}-dbg", self.release);
        let mut paths = self.paths.iter();
        let advice = match paths.find(|path| has_other_id(path, &self.id)) {
            Some(path) => format!(
                "{} is of another build: install the version of {package} that belongs to this kernel",
                path.display()
            ),
            None => format!("install {package}"),
        };
        let (of, id) = (of(module), hex(&self.id));
        format!("no source lines{of}: {advice}, or run debuginfod-find debuginfo {id}")
    }
}

/// What the debug information of a module is about. `module` is empty for the kernel.
pub fn owner(module: &str) -> &str {
    match module {
        "" => "the kernel",
        _ => module,
    }
}

fn of(module: &str) -> String {
    match module {
        "" => String::new(),
        _ => format!(" of {module}"),
    }
}

/// The files with this build ID, of packages and of debuginfod.
fn by_id(id: &[u8], variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    let id = hex(id);
    let (start, rest) = id.split_at(2.min(id.len()));
    let mut paths = vec![format!("/usr/lib/debug/.build-id/{start}/{rest}.debug").into()];
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

/// The files that can contain the kernel.
fn kernel_files(release: &str) -> Vec<PathBuf> {
    [
        format!("/usr/lib/debug/boot/vmlinux-{release}"),
        format!("/usr/lib/debug/lib/modules/{release}/vmlinux"),
        format!("/usr/lib/debug/usr/lib/modules/{release}/vmlinux"),
        format!("/lib/modules/{release}/build/vmlinux"),
    ]
    .map(PathBuf::from)
    .into()
}

/// The file of a module below `/lib/modules/RELEASE`, without compression. `modules` is the list `modules.dep`.
pub fn module_file(module: &str, modules: &str) -> Option<String> {
    modules.lines().find_map(|line| {
        let (path, _) = line.split_once(':')?;
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let name = name.split_once(".ko")?.0;
        (name.replace('-', "_") == module).then(|| format!("{directory}/{name}.ko"))
    })
}

/// The directory of a module in the kernel's source. `None` if the module is not from there.
pub fn source_directory(file: &str) -> Option<&str> {
    let (directory, _) = file.strip_prefix("kernel/")?.rsplit_once('/')?;
    Some(directory)
}

/// The files that can contain a module with this [`module_file`].
fn module_files(release: &str, file: &str) -> Vec<PathBuf> {
    let in_source = file.strip_prefix("kernel/").unwrap_or(file);
    [
        format!("/usr/lib/debug/lib/modules/{release}/{file}"),
        format!("/usr/lib/debug/usr/lib/modules/{release}/{file}"),
        format!("/lib/modules/{release}/{file}"),
        format!("/lib/modules/{release}/build/{in_source}"),
    ]
    .map(PathBuf::from)
    .into()
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

/// Whether a file has a build ID, and not this one.
pub fn has_other_id(path: &Path, id: &[u8]) -> bool {
    let Ok(file) = File::open(path) else {
        return false;
    };
    let cache = ReadCache::new(file);
    let object = object::File::parse(&cache);
    object.is_ok_and(|object| matches!(object.build_id(), Ok(Some(other)) if other != id))
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

    #[test]
    fn looks_in_the_places_of_packages_and_of_debuginfod() {
        let variable = |name: &str| (name == "HOME").then(|| PathBuf::from("/home/user"));
        let paths = by_id(&[0xab, 0xcd, 0x0e], variable);
        for path in [
            "/usr/lib/debug/.build-id/ab/cd0e.debug",
            "/home/user/.cache/debuginfod_client/abcd0e/debuginfo",
        ] {
            assert!(paths.contains(&PathBuf::from(path)), "{path}");
        }
        let list = "kernel/a/b-c.ko.xz: kernel/a/d.ko.xz\nupdates/e.ko:\n";
        let file = module_file("b_c", list).unwrap();
        let paths = module_files("7.1", &file);
        for path in [
            "/usr/lib/debug/lib/modules/7.1/kernel/a/b-c.ko",
            "/lib/modules/7.1/build/a/b-c.ko",
        ] {
            assert!(paths.contains(&PathBuf::from(path)), "{path}");
        }
        assert_eq!(module_file("d", list), None);
    }

    #[test]
    fn knows_the_source_directory_of_a_module() {
        let list = "kernel/fs/9p/9p.ko.xz:\nupdates/dkms/e.ko:\n";
        let of = |module| module_file(module, list).unwrap();
        assert_eq!(source_directory(&of("9p")), Some("fs/9p"));
        assert_eq!(source_directory(&of("e")), None);
    }

    #[test]
    fn finds_the_build_id_among_notes() {
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
