// SPDX-License-Identifier: GPL-2.0

//! System calls that `std` lacks. The unsafe code of this program is here and in `shared`.

use std::{
    ffi::CString,
    fs::File,
    io,
    os::fd::{
        AsRawFd,
        FromRawFd, //
    },
};

use libc::{
    c_long,
    pid_t, //
};

fn check(result: c_long) -> io::Result<c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// A system call with numbers for arguments.
pub fn call(number: c_long, arguments: [usize; 3]) -> io::Result<c_long> {
    // SAFETY: Callers pass numbers and null pointers only, so the kernel writes no memory.
    check(unsafe { libc::syscall(number, arguments[0], arguments[1], arguments[2]) })
}

/// Loads a module.
pub fn load_module(file: &File, parameters: &str) -> io::Result<()> {
    let parameters = CString::new(parameters)?;
    // SAFETY: `parameters` is a C string that lives across the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_finit_module,
            file.as_raw_fd(),
            parameters.as_ptr(),
            0,
        )
    })
    .map(drop)
}

/// Unloads a module, as rmmod(8) does.
pub fn unload_module(name: &str) -> io::Result<()> {
    let name = CString::new(name)?;
    // SAFETY: `name` is a C string that lives across the call.
    check(unsafe { libc::syscall(libc::SYS_delete_module, name.as_ptr(), libc::O_NONBLOCK) })
        .map(drop)
}

/// What perf_event_open(2) opens.
#[derive(Clone, Copy)]
pub enum Perf {
    /// The hits of the trace event of this number, each with a sample.
    Samples(u64),
    /// The number of hits of this trace event.
    Count(u64),
    /// Writes to this address of the process, by a register of the processor.
    Writes(usize),
}

/// Opens an event for perf: of this process on all CPUs, or of all processes on one CPU.
pub fn perf_open(event: Perf, cpu: Option<usize>) -> io::Result<File> {
    const PERF_TYPE_TRACEPOINT: u64 = 2;
    const PERF_TYPE_BREAKPOINT: u64 = 5;
    const PERF_SAMPLE_CALLCHAIN: u64 = 1 << 5;
    const PERF_SAMPLE_RAW: u64 = 1 << 10;
    const HW_BREAKPOINT_W: u64 = 2;
    // struct perf_event_attr: type and size, config, sample_period, sample_type; wakeup_events and
    // bp_type, bp_addr, bp_len.
    let mut attributes = [0u64; 17];
    let size = std::mem::size_of_val(&attributes) as u64;
    let kind = match event {
        Perf::Samples(id) => {
            attributes[1] = id;
            attributes[2] = 1;
            attributes[3] = PERF_SAMPLE_RAW | PERF_SAMPLE_CALLCHAIN;
            PERF_TYPE_TRACEPOINT
        }
        Perf::Count(id) => {
            attributes[1] = id;
            PERF_TYPE_TRACEPOINT
        }
        Perf::Writes(address) => {
            attributes[6] = HW_BREAKPOINT_W << 32;
            attributes[7] = address as u64;
            attributes[8] = 8;
            PERF_TYPE_BREAKPOINT
        }
    };
    attributes[0] = kind | size << 32;
    let (pid, cpu) = match cpu {
        Some(cpu) => (-1, cpu as i32),
        None => (0, -1),
    };
    // SAFETY: `attributes` has the size that it says, and lives across the call.
    let fd = check(unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            pid,
            cpu,
            -1,
            8, // PERF_FLAG_FD_CLOEXEC
        )
    })?;
    // SAFETY: The call returned a new descriptor, which nobody else owns.
    Ok(unsafe { File::from_raw_fd(fd as i32) })
}

/// Runs a BPF program at the hits of an event that is open for perf.
pub fn perf_set_bpf(perf: &File, program: &File) -> io::Result<()> {
    const PERF_EVENT_IOC_SET_BPF: libc::c_ulong = 0x4004_2408;
    // SAFETY: This request takes a number.
    let result = unsafe {
        libc::ioctl(
            perf.as_raw_fd(),
            PERF_EVENT_IOC_SET_BPF as _,
            program.as_raw_fd(),
        )
    };
    check(result.into()).map(drop)
}

/// The memory in which perf writes samples. It lives until it is dropped, and the event as well.
pub struct Ring(*mut libc::c_void);

impl Ring {
    /// A page of control data, and two for samples.
    const SIZE: usize = 3 * 4096;

    pub fn map(perf: &File) -> io::Result<Self> {
        // SAFETY: A new mapping changes no memory that anyone uses.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                Self::SIZE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                perf.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(memory))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: `map` made this mapping, of which nobody else knows.
        unsafe { libc::munmap(self.0, Self::SIZE) };
    }
}

/// The requests of bpf(2) that the storm makes.
#[derive(Clone, Copy)]
pub enum Bpf {
    MapCreate = 0,
    MapLookup = 1,
    ProgramLoad = 5,
    ObjectInfo = 15,
    LinkCreate = 28,
}

/// bpf(2). `attributes` are those of the request, with addresses of memory that lives.
pub fn bpf(request: Bpf, attributes: &[u64]) -> io::Result<c_long> {
    // SAFETY: `attributes` has the size that the call says. Callers put addresses in it only of
    // memory that the request may read or write.
    check(unsafe {
        libc::syscall(
            libc::SYS_bpf,
            request as c_long,
            attributes.as_ptr(),
            std::mem::size_of_val(attributes),
        )
    })
}

/// A request that returns a new descriptor.
pub fn bpf_file(request: Bpf, attributes: &[u64]) -> io::Result<File> {
    let fd = bpf(request, attributes)?;
    // SAFETY: The call returned a new descriptor, which nobody else owns.
    Ok(unsafe { File::from_raw_fd(fd as i32) })
}

/// Starts a process that runs `body` and ends. It shares no open file with this one, other than
/// the standard ones.
pub fn spawn(body: impl FnOnce() -> i32) -> io::Result<pid_t> {
    // SAFETY: This process has one thread, so the child may do anything.
    let pid = check(unsafe { libc::fork() }.into())? as pid_t;
    if pid > 0 {
        return Ok(pid);
    }
    // SAFETY: Files of the parent that the child has copies of are never used or closed again: the
    // child leaves by `_exit`.
    unsafe { libc::close_range(3, u32::MAX, 0) };
    let status = body();
    // SAFETY: No requirements.
    unsafe { libc::_exit(status) }
}

/// Kills a process.
pub fn kill(pid: pid_t) {
    // SAFETY: No requirements.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// Waits for a child: its exit status, or `None` if it still runs. A child that a signal ended has
/// the status -1.
pub fn wait(pid: pid_t, can_block: bool) -> Option<i32> {
    let mut status = 0;
    let flags = if can_block { 0 } else { libc::WNOHANG };
    // SAFETY: `status` is writable.
    match unsafe { libc::waitpid(pid, &mut status, flags) } {
        0 => None,
        _ if libc::WIFEXITED(status) => Some(libc::WEXITSTATUS(status)),
        _ => Some(-1),
    }
}

/// Lets the kernel reap children.
pub fn ignore_children() {
    // SAFETY: SIG_IGN is no handler of ours.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// Moves this process to one CPU, or lets it run on all of them.
pub fn run_on(cpu: Option<usize>) -> io::Result<()> {
    let mask: u64 = cpu.map_or(u64::MAX, |cpu| 1 << cpu);
    // SAFETY: `mask` has the size that the call says, and lives across the call.
    check(unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, 8, &mask) }).map(drop)
}

/// Sets the name of this process.
pub fn set_name(name: &str) {
    let name = CString::new(name).unwrap_or_default();
    // SAFETY: `name` is a C string that lives across the call.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Lowers the priority of this process.
pub fn be_nice() {
    // SAFETY: No requirements.
    unsafe { libc::nice(10) };
}
