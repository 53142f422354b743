// SPDX-License-Identifier: GPL-2.0

//! BPF programs that count their runs.

use std::{
    fs::File,
    io,
    os::fd::AsRawFd, //
};

use crate::sys::{
    self,
    Bpf, //
};

/// A program, and the map in which it counts.
pub struct Counter {
    map: File,
    program: File,
}

/// What a program is for.
#[derive(Clone, Copy)]
pub enum Use {
    /// A trace event. Such a program may read the first field of the record.
    Event { reads_record: bool },
    /// Functions, through the kernel's own fprobe.
    Functions,
}

/// The instruction `code`, with its registers, offset and number.
const fn instruction(code: u8, to: u8, from: u8, offset: i16, number: i32) -> u64 {
    code as u64
        | ((to | from << 4) as u64) << 8
        | (offset as u16 as u64) << 16
        | (number as u32 as u64) << 32
}

/// Two 32-bit values as one of 64 bits.
fn pair(low: i32, high: i32) -> u64 {
    u64::from(low as u32) | u64::from(high as u32) << 32
}

impl Counter {
    pub fn load(used: Use) -> io::Result<Self> {
        const BPF_MAP_TYPE_ARRAY: i32 = 2;
        const BPF_PROG_TYPE_KPROBE: i32 = 2;
        const BPF_PROG_TYPE_TRACEPOINT: i32 = 5;
        const BPF_TRACE_KPROBE_MULTI: i32 = 42;

        // A map with one key of 4 bytes and a value of 8.
        let map = sys::bpf_file(Bpf::MapCreate, &[pair(BPF_MAP_TYPE_ARRAY, 4), pair(8, 1)])?;
        let (kind, attach_type, reads_record) = match used {
            Use::Event { reads_record } => (BPF_PROG_TYPE_TRACEPOINT, 0, reads_record),
            Use::Functions => (BPF_PROG_TYPE_KPROBE, BPF_TRACE_KPROBE_MULTI, false),
        };
        let mut code = Vec::new();
        if reads_record {
            code.push(instruction(0x79, 6, 1, 8, 0)); // r6 = *(u64 *)(r1 + 8)
        }
        code.extend([
            instruction(0x62, 10, 0, -4, 0),             // *(u32 *)(r10 - 4) = 0
            instruction(0xbf, 2, 10, 0, 0),              // r2 = r10
            instruction(0x07, 2, 0, 0, -4),              // r2 += -4
            instruction(0x18, 1, 1, 0, map.as_raw_fd()), // r1 = map
            0,
            instruction(0x85, 0, 0, 0, 1), // call bpf_map_lookup_elem
            instruction(0x15, 0, 0, 2, 0), // if r0 == 0 goto +2
            instruction(0xb7, 1, 0, 0, 1), // r1 = 1
            instruction(0xdb, 0, 1, 0, 0), // lock *(u64 *)r0 += r1
            instruction(0xb7, 0, 0, 0, 1), // r0 = 1: perf records the hit, too
            instruction(0x95, 0, 0, 0, 0), // exit
        ]);
        let license = c"GPL";
        let mut attributes = [0; 9];
        attributes[0] = pair(kind, code.len() as i32);
        attributes[1] = code.as_ptr() as u64;
        attributes[2] = license.as_ptr() as u64;
        attributes[8] = pair(0, attach_type);
        let program = sys::bpf_file(Bpf::ProgramLoad, &attributes)?;
        Ok(Self { map, program })
    }

    /// Runs the program at the hits of an event that is open for perf, until this file is closed.
    pub fn attach(&self, perf: &File) -> io::Result<()> {
        sys::perf_set_bpf(perf, &self.program)
    }

    /// Runs the program at the calls of functions, until the file that this returns is closed.
    pub fn link(&self, functions: &[&str]) -> io::Result<File> {
        const BPF_TRACE_KPROBE_MULTI: i32 = 42;
        let names: Vec<_> = functions.iter().map(|name| format!("{name}\0")).collect();
        let pointers: Vec<u64> = names.iter().map(|name| name.as_ptr() as u64).collect();
        let mut attributes = [0; 6];
        attributes[0] = pair(self.program.as_raw_fd(), 0);
        attributes[1] = pair(BPF_TRACE_KPROBE_MULTI, 0);
        attributes[2] = pair(0, pointers.len() as i32);
        attributes[3] = pointers.as_ptr() as u64;
        sys::bpf_file(Bpf::LinkCreate, &attributes)
    }

    /// How many hits the program saw, and how many the kernel did not let it see, because another
    /// program ran.
    pub fn counts(&self) -> io::Result<(u64, u64)> {
        const RECURSION_MISSES: usize = 208 / 8;
        let (key, mut runs) = (0u32, 0u64);
        let mut attributes = [0; 3];
        attributes[0] = pair(self.map.as_raw_fd(), 0);
        attributes[1] = &raw const key as u64;
        attributes[2] = &raw mut runs as u64;
        sys::bpf(Bpf::MapLookup, &attributes)?;
        let mut info = [0u64; RECURSION_MISSES + 1];
        let size = size_of_val(&info) as i32;
        let attributes = [
            pair(self.program.as_raw_fd(), size),
            info.as_mut_ptr() as u64,
        ];
        sys::bpf(Bpf::ObjectInfo, &attributes)?;
        Ok((runs, info[RECURSION_MISSES]))
    }
}
