// SPDX-License-Identifier: GPL-2.0

//! The handler of a probe: a hit becomes a record.
//!
//! C: `kprobe_dispatcher()`, `kretprobe_dispatcher()` in `kernel/trace/trace_kprobe.c`.

use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;

use ktrace::kprobe;
use ktrace::kprobe::Hit;
use ktrace::kretprobe;
use ktrace::nofault;
use ktrace::percpu::Counter;
use ktrace::percpu::Scratch;
use ktrace::trace_event::Sink;
use ktrace::trace_event::HEADER_LEN;
use ktrace::trace_event::MAX_LEN;
use probe::arch::Register;
use probe::command::argument::Space;
use probe::fetch;
use probe::fetch::Context;
use probe::fetch::Fault;
use probe::fetch::Program;

/// Where the fields of events with strings are put together: how long a record gets is known only
/// when its strings were read.
pub(crate) type Room = Scratch<MAX_LEN>;

/// What a probe does at a hit.
pub(crate) struct Recorder {
    pub(crate) sink: Arc<Sink>,
    pub(crate) hits: Counter,
    pub(crate) programs: KVec<Program>,
    /// How many bytes the fields take, without strings.
    pub(crate) fixed: usize,
    /// For an event with strings.
    pub(crate) room: Option<Arc<Room>>,
    /// The strings that stand in the programs: these hold their addresses.
    pub(crate) _texts: KVec<CString>,
}

#[vtable]
impl kprobe::Handler for Recorder {
    #[inline(always)]
    fn pre(&self, hit: &Hit<'_>) {
        self.record(hit, [hit.address()]);
    }
}

#[vtable]
impl kretprobe::Handler for Recorder {
    type Data = ();

    #[inline(always)]
    fn ret(&self, hit: &Hit<'_>, call: &kretprobe::Call<'_, ()>) {
        self.record(hit, [hit.address(), call.caller()]);
    }
}

impl Recorder {
    /// Makes a record that begins with the addresses in `head`.
    #[inline(always)]
    fn record<const N: usize>(&self, hit: &Hit<'_>, head: [usize; N]) {
        self.hits.increment();
        let fields_at = HEADER_LEN + size_of::<[usize; N]>();
        match &self.room {
            None => self
                .sink
                .record(hit, fields_at.wrapping_add(self.fixed), |record| {
                    if let Some(fields) = put_head(record, head) {
                        fetch::record(&self.programs, self.fixed, fields_at, &Seen(hit), fields);
                    }
                }),
            Some(room) => self.record_with_strings(room, hit, head),
        }
    }

    /// The same for an event with strings: they are read once, whoever wants the record.
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn record_with_strings<const N: usize>(&self, room: &Room, hit: &Hit<'_>, head: [usize; N]) {
        let fields_at = HEADER_LEN + size_of::<[usize; N]>();
        room.with(hit.atomic(), |area| {
            let area = area.map_or(&mut [][..], |area| &mut area[..]);
            let len = area.len().min(MAX_LEN.wrapping_sub(fields_at));
            let fields = area.get_mut(..len).unwrap_or(&mut []);
            let len = fetch::record(&self.programs, self.fixed, fields_at, &Seen(hit), fields);
            let fields = fields.get(..len).unwrap_or(&[]);
            self.sink
                .record(hit, fields_at.wrapping_add(fields.len()), |record| {
                    if let Some(to) = put_head(record, head) {
                        if to.len() == fields.len() {
                            to.copy_from_slice(fields);
                        }
                    }
                });
        });
    }
}

/// Writes the addresses, and gives what is behind them.
#[inline(always)]
fn put_head<const N: usize>(mut record: &mut [u8], head: [usize; N]) -> Option<&mut [u8]> {
    for address in head {
        let (first, rest) = record.split_first_chunk_mut()?;
        *first = address.to_ne_bytes();
        record = rest;
    }
    Some(record)
}

/// A hit as a program sees it.
struct Seen<'a>(&'a Hit<'a>);

impl Context for Seen<'_> {
    #[inline(always)]
    fn register(&self, register: Register) -> u64 {
        self.0.registers().get(register)
    }

    #[inline(always)]
    fn stack(&self, n: u16) -> u64 {
        self.0.registers().stack(n)
    }

    #[inline(always)]
    fn comm(&self) -> u64 {
        self.0.atomic().comm() as u64
    }

    #[inline(always)]
    fn read(&self, space: Space, address: u64, to: &mut [u8]) -> Result<(), Fault> {
        let address = address as usize;
        match space {
            Space::Kernel if !is_user(address) => nofault::read_kernel(address, to),
            _ => nofault::read_user(address, to),
        }
        .map_err(|nofault::Fault| Fault)
    }
}

/// Is this an address of user space, whatever the command takes it for? The two spaces have a half
/// each where they do not overlap.
///
/// C: `probe_mem_read()`, which asks for `TASK_SIZE`.
#[inline(always)]
fn is_user(address: usize) -> bool {
    cfg!(CONFIG_ARCH_HAS_NON_OVERLAPPING_ADDRESS_SPACE) && (address as isize) >= 0
}
