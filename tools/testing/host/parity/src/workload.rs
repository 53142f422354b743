// SPDX-License-Identifier: GPL-2.0

//! What is done with events enabled: calls that nobody else makes meanwhile, and each time the same.

use std::{
    fs::{
        self,
        File, //
    },
    io::{
        self,
        Write, //
    },
    os::unix::fs::{
        symlink,
        FileExt,
        PermissionsExt, //
    },
    process::Command, //
};

/// A directory of the workloads' own.
const DIRECTORY: &str = "/tmp/parity";

/// The name and the action.
#[derive(Clone, Copy, Debug)]
pub struct Workload(&'static str, fn() -> io::Result<()>);

const ALL: [Workload; 4] = [
    Workload("read", read),
    Workload("files", files),
    Workload("comm", comm),
    Workload("fork", fork),
];

impl Workload {
    /// The one of this name.
    pub fn find(name: &str) -> Option<Self> {
        ALL.into_iter().find(|workload| workload.0 == name)
    }

    /// Does it.
    ///
    /// # Errors
    ///
    /// Of the system calls that do not fail on purpose.
    pub fn run(self) -> io::Result<()> {
        self.1()
    }
}

/// Makes what the workloads need.
///
/// # Errors
///
/// Of the system calls.
pub fn prepare() -> io::Result<()> {
    fs::create_dir_all(DIRECTORY)?;
    fs::write(format!("{DIRECTORY}/text"), "0123456789abcdef\n")
}

/// `vfs_read()` and `vfs_write()`, by pread(2) and pwrite(2): 1, 7 and 17 bytes, and none.
fn read() -> io::Result<()> {
    let file = File::options()
        .read(true)
        .write(true)
        .open(format!("{DIRECTORY}/text"))?;
    let mut bytes = [0; 32];
    for length in [1, 7, 17, 0] {
        file.read_at(&mut bytes[..length], 0)?;
    }
    file.write_all_at(b"01234", 0)
}

/// Files and directories come and go.
fn files() -> io::Result<()> {
    let path = |name: &str| format!("{DIRECTORY}/{name}");
    fs::create_dir(path("some_directory"))?;
    fs::write(path("some_directory/some_name"), "text")?;
    fs::metadata(path("some_directory/some_name"))?;
    symlink("some_name", path("some_directory/link"))?;
    fs::set_permissions(
        path("some_directory/some_name"),
        fs::Permissions::from_mode(0o640),
    )?;
    fs::read_dir(path("some_directory"))?.count();
    fs::rename(
        path("some_directory/some_name"),
        path("some_directory/other_name"),
    )?;
    fs::remove_file(path("some_directory/other_name"))?;
    fs::remove_file(path("some_directory/link"))?;
    fs::remove_dir(path("some_directory"))?;
    for length in [1, 255, 256] {
        let no_directory = fs::remove_dir(path(&"x".repeat(length)));
        if no_directory.is_ok() {
            return Err(io::Error::other("removed what is not there"));
        }
    }
    Ok(())
}

/// The name of the task changes, and changes back.
fn comm() -> io::Result<()> {
    let was = fs::read("/proc/self/comm")?;
    for name in [
        b"somebody".as_slice(),
        b"a \"b\" %s \x01\xff",
        was.trim_ascii_end(),
    ] {
        let mut file = File::options().write(true).open("/proc/self/comm")?;
        file.write_all(name)?;
    }
    Ok(())
}

/// A process starts, and ends.
fn fork() -> io::Result<()> {
    let status = Command::new("/bin/true").status()?;
    if !status.success() {
        return Err(io::Error::other("/bin/true failed"));
    }
    Ok(())
}
