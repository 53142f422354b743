// SPDX-License-Identifier: GPL-2.0

//! The system calls that the standard library does not offer.

use std::{
    env,
    fs::{
        self,
        File, //
    },
    io::{
        self,
        Write, //
    },
    os::fd::{
        AsRawFd,
        FromRawFd, //
    },
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::atomic::{
        AtomicBool,
        Ordering::Relaxed, //
    },
    time::{
        Duration,
        SystemTime,
        UNIX_EPOCH, //
    }, //
};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn interrupt(_signal: libc::c_int) {
    INTERRUPTED.store(true, Relaxed);
}

/// Makes SIGINT, SIGTERM and SIGHUP end the command in order, see [`is_interrupted`]. `nohup` still works.
pub fn catch_signals() {
    let handler: extern "C" fn(libc::c_int) = interrupt;
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: `interrupt` only stores to an atomic variable, which a signal handler may do.
        let before = unsafe { libc::signal(signal, handler as libc::sighandler_t) };
        if signal == libc::SIGHUP && before == libc::SIG_IGN {
            // SAFETY: `SIG_IGN` runs no code.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
    }
}

/// Whether a signal asks the command to end.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Relaxed)
}

/// Waits for at most `time`, or until a signal arrives. Returns whether the reader of the standard output has gone.
pub fn wait(time: Duration) -> bool {
    let mut stdout = libc::pollfd {
        fd: libc::STDOUT_FILENO,
        events: 0,
        revents: 0,
    };
    let ms = time.as_millis().min(1_000_000) as libc::c_int;
    // SAFETY: The pointer is to one `pollfd`, which outlives the call.
    let ready = unsafe { libc::poll(&mut stdout, 1, ms) };
    ready > 0 && stdout.revents & libc::POLLERR != 0
}

/// Takes the lock of `file` if nobody has it. The kernel gives the lock back when the process ends.
pub fn try_lock(file: &File) -> bool {
    // SAFETY: The call has no pointers, and `file` is open.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

/// Waits for the lock of `file`, and takes it.
pub fn lock(file: &File) -> io::Result<()> {
    // SAFETY: The call has no pointers, and `file` is open.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A file in memory, with these contents.
pub fn memory_file(contents: &[u8]) -> io::Result<File> {
    // SAFETY: The name is a C string.
    let fd = unsafe { libc::memfd_create(c"rkprobe".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: The descriptor is new, and nothing else owns it.
    let mut file = unsafe { File::from_raw_fd(fd) };
    file.write_all(contents)?;
    Ok(file)
}

/// The columns and the lines of the terminal.
pub fn terminal_size() -> Option<(usize, usize)> {
    // SAFETY: A `winsize` is numbers only, for which zeros are valid.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: `TIOCGWINSZ` writes one `winsize`, and `size` is one.
    let status = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) };
    let is_known = status == 0 && size.ws_col > 0 && size.ws_row > 0;
    is_known.then_some((usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// The time from the start of `CLOCK_MONOTONIC` to that of `CLOCK_REALTIME`, in ns, as it is now.
pub fn monotonic_epoch() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: The call writes one `timespec`, and `now` is one.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    let since_boot = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let epoch = since_epoch.unwrap_or_default().saturating_sub(since_boot);
    epoch.as_nanos() as u64
}

/// The hours, minutes and seconds of a time in the time zone of the user. `seconds` is the time since the epoch.
pub fn time_of_day(seconds: u64) -> (i32, i32, i32) {
    let seconds = seconds as libc::time_t;
    // SAFETY: A `tm` is numbers and a pointer to a name, for which zeros are valid.
    let mut time: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: The call reads one `time_t` and writes one `tm`, and these are such.
    unsafe { libc::localtime_r(&seconds, &mut time) };
    (time.tm_hour, time.tm_min, time.tm_sec)
}

/// Sends a signal to a process. Nothing happens if the kernel refuses it.
pub fn signal(pid: u32, signal: i32) {
    // 0 and negative numbers would be groups of processes.
    if let Some(pid) = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0) {
        // SAFETY: The call has no pointers.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Whether a shell finds a program.
pub fn has_program(name: &str) -> bool {
    let is_program = |path: &Path| {
        fs::metadata(path)
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return is_program(Path::new(name));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).any(|directory| is_program(&directory.join(name)));
    found && !name.is_empty()
}

/// Whether the process has the user ID 0.
pub fn is_root() -> bool {
    // SAFETY: The call has no conditions.
    unsafe { libc::geteuid() == 0 }
}
