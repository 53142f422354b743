// SPDX-License-Identifier: GPL-2.0

//! The system calls that the standard library does not offer, and the time zone.

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
    os::{
        fd::BorrowedFd,
        unix::fs::PermissionsExt, //
    },
    path::Path,
    sync::{
        atomic::{
            AtomicBool,
            AtomicU64,
            Ordering::Relaxed, //
        },
        Arc,
        LazyLock, //
    },
    time::{
        Duration,
        SystemTime,
        UNIX_EPOCH, //
    }, //
};

use jiff::{
    tz::TimeZone,
    Timestamp, //
};
pub use rustix::process::Signal;
use rustix::{
    event::{
        poll,
        PollFd,
        PollFlags,
        Timespec, //
    },
    fs::{
        flock,
        memfd_create,
        FlockOperation,
        MemfdFlags,
        OFlags, //
    },
    process::{
        geteuid,
        kill_process,
        Pid, //
    },
    termios::tcgetwinsize,
    time::{
        clock_gettime,
        ClockId, //
    }, //
};
use signal_hook::{
    consts::{
        SIGHUP,
        SIGINT,
        SIGTERM, //
    },
    flag, //
};

/// The flag of `open` for a file that does not block.
pub const NON_BLOCKING: i32 = OFlags::NONBLOCK.bits() as i32;

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Whether a signal kills the process.
static KILLS: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| Arc::new(true.into()));

/// Makes SIGINT, SIGTERM and SIGHUP end the command in order while an [`InOrder`] exists, see [`is_interrupted`].
/// `nohup` still works.
pub fn catch_signals() -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if signal != SIGHUP || !is_ignored(signal) {
            flag::register_conditional_default(signal, Arc::clone(&KILLS))?;
            flag::register(signal, Arc::clone(&INTERRUPTED))?;
        }
    }
    Ok(())
}

/// While it exists, a signal does not kill the process, because the process would leave something behind. Otherwise
/// a signal does, for example while the command reads debug information.
pub struct InOrder {
    killed_before: bool,
}

impl InOrder {
    pub fn begin() -> Self {
        Self {
            killed_before: KILLS.swap(false, Relaxed),
        }
    }
}

impl Drop for InOrder {
    fn drop(&mut self) {
        KILLS.store(self.killed_before, Relaxed);
    }
}

/// Whether the process ignores a signal, as the program that started it wanted.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Whether a signal asks the command to end.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Relaxed)
}

/// What happened first.
#[derive(Debug, PartialEq)]
pub enum Woken {
    /// The time is over, or a signal arrived.
    Over,
    /// One of the files has something to read.
    Ready,
    /// The reader of the standard output has gone.
    ClosedPipe,
}

/// Waits for at most `time`, or until one of the files can be read.
pub fn wait(time: Duration, files: &[BorrowedFd<'_>]) -> Woken {
    let stdout = io::stdout();
    let files = files.iter().map(|file| PollFd::new(file, PollFlags::IN));
    let mut all: Vec<_> = std::iter::once(PollFd::new(&stdout, PollFlags::empty()))
        .chain(files)
        .collect();
    let time = Timespec::try_from(time).ok();
    if !poll(&mut all, time.as_ref()).is_ok_and(|ready| ready > 0) {
        return Woken::Over;
    }
    match all[0].revents().contains(PollFlags::ERR) {
        true => Woken::ClosedPipe,
        false => Woken::Ready,
    }
}

/// Takes the lock of `file` if nobody has it. The kernel gives the lock back when the process ends.
pub fn try_lock(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Waits for the lock of `file`, and takes it.
pub fn lock(file: &File) -> io::Result<()> {
    Ok(flock(file, FlockOperation::LockExclusive)?)
}

/// A file in memory, with these contents.
pub fn memory_file(contents: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("rkprobe", MemfdFlags::CLOEXEC)?);
    file.write_all(contents)?;
    Ok(file)
}

/// The columns and the lines of the terminal.
pub fn terminal_size() -> Option<(usize, usize)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    let is_known = size.ws_col > 0 && size.ws_row > 0;
    is_known.then_some((size.ws_col.into(), size.ws_row.into()))
}

/// The time from the start of `CLOCK_MONOTONIC` to that of `CLOCK_REALTIME`, in ns.
///
/// The two clocks are read one after the other, so this time differs a little from call to call. It changes only if
/// someone set the clock, because the order of records must stay.
pub fn monotonic_epoch() -> u64 {
    /// In ns: a clock that someone set differs by more.
    const LEAST: u64 = 10_000_000;
    static KNOWN: AtomicU64 = AtomicU64::new(0);

    let since_boot = Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default();
    let now = since_epoch().saturating_sub(since_boot.as_nanos() as u64);
    let known = KNOWN.load(Relaxed);
    if known.abs_diff(now) < LEAST {
        return known;
    }
    KNOWN.store(now, Relaxed);
    now
}

/// The time since the epoch, in ns.
pub fn since_epoch() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    time.unwrap_or_default().as_nanos() as u64
}

/// A time in seconds, with the microseconds, which is the unit of the kernel's records.
pub fn seconds(ns: u64) -> f64 {
    (ns / 1000) as f64 / 1e6
}

/// The time of day in the time zone of the user, with microseconds. `ns` is the time since the epoch.
pub fn time_of_day(ns: u64) -> String {
    let time = Timestamp::from_nanosecond(ns.into()).unwrap_or_default();
    let time = time.to_zoned(TimeZone::system());
    time.strftime("%H:%M:%S.%6f").to_string()
}

/// Sends a signal to a process. Nothing happens if the kernel refuses it.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = pid.try_into().ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
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
    geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use std::os::{
        fd::AsFd,
        unix::net::UnixStream, //
    };

    use super::*;

    #[test]
    fn a_wait_ends_when_a_file_can_be_read() {
        let (reader, mut writer) = UnixStream::pair().unwrap();
        let moment = Duration::from_millis(1);
        assert_eq!(wait(moment, &[]), Woken::Over);
        assert_eq!(wait(moment, &[reader.as_fd()]), Woken::Over);
        writer.write_all(b"x").unwrap();
        let long = Duration::from_secs(1000);
        assert_eq!(wait(long, &[reader.as_fd()]), Woken::Ready);
    }

    #[test]
    fn records_keep_their_order() {
        let first = monotonic_epoch();
        assert!((0..10_000).all(|_| monotonic_epoch() == first));
    }

    #[test]
    fn times_have_microseconds() {
        let text = |ns| serde_json::to_string(&seconds(ns)).unwrap();
        assert_eq!(text(1_764_240_000_012_345_678), "1764240000.012345");
        assert_eq!(text(4_102_444_799_999_999_999), "4102444799.999999");
    }
}
