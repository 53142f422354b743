// SPDX-License-Identifier: GPL-2.0

//! The users of an event, for messages.

use core::{
    fmt,
    mem::size_of,
    ptr, //
};

use kernel::{
    bindings::list_head,
    ffi::c_ulong,
    prelude::*,
    sync::atomic::Relaxed, //
};

use crate::{
    bindings::{
        self,
        trace_event_file, //
    },
    event::mutex::EventMutexHeld,
    hit::nofault::{
        Fault,
        KernelPtr, //
    },
};

use super::pinned_event::PinnedEvent;

/// The users of an event. `Display` writes them in a list with commas, such as `enabled, a trigger
/// in the instance foo, perf`. BPF programs use an event by perf.
pub struct EventUsers<'a> {
    event: &'a PinnedEvent,
    /// `event_mutex` is held, so no user comes or leaves.
    _token: &'a EventMutexHeld,
}

impl<'a> EventUsers<'a> {
    pub(super) fn new(event: &'a PinnedEvent, token: &'a EventMutexHeld) -> Self {
        Self {
            event,
            _token: token,
        }
    }
}

impl fmt::Display for EventUsers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut add = |user: &str, instance: Option<&Instance>| {
            write!(f, "{separator}{user}")?;
            separator = ", ";
            match instance {
                Some(instance) => write!(f, "{instance}"),
                None => Ok(()),
            }
        };
        let mut result = Ok(());
        let sink = self.event.sink();
        let add_file = |file: *mut trace_event_file| {
            // SAFETY: The file is of an instance that uses the event. `event_mutex` is held, so the
            // instance neither leaves nor ends.
            let (uses, instance) = unsafe { (Uses::of(file), Instance((*file).tr.addr())) };
            for (is_used, text) in [
                (uses.is_enabled, "enabled"),
                (uses.has_trigger, "a trigger"),
                (uses.is_softly_enabled, "softly enabled"),
            ] {
                if is_used && result.is_ok() {
                    result = add(text, Some(&instance));
                }
            }
        };
        // SAFETY: `event_mutex` is held.
        unsafe { sink.each_file(add_file) };
        result?;
        if sink.has_perf() {
            add("perf or BPF", None)?;
        }
        if !sink.is_used() && self.event.references().load(Relaxed) != 0 {
            add("a reference of the kernel", None)?;
        }
        Ok(())
    }
}

/// How a trace instance uses an event.
struct Uses {
    is_enabled: bool,
    has_trigger: bool,
    is_softly_enabled: bool,
}

impl Uses {
    /// C: `__ftrace_event_enable_disable()`, `trace_event_trigger_enable_disable()`.
    ///
    /// # Safety
    ///
    /// `file` must be live.
    unsafe fn of(file: *mut trace_event_file) -> Self {
        // SAFETY: The caller guarantees a live file. The kernel changes its flags and counters by
        // atomic instructions.
        let (flags, soft, triggers) = unsafe {
            (
                ptr::read_volatile(&raw const (*file).flags),
                ptr::read_volatile(&raw const (*file).sm_ref.counter),
                ptr::read_volatile(&raw const (*file).tm_ref.counter),
            )
        };
        let has_trigger = triggers > 0;
        Self {
            is_enabled: flags & bindings::EVENT_FILE_FL_SOFT_DISABLED as c_ulong == 0,
            has_trigger,
            // All triggers of the event together count as one soft user.
            is_softly_enabled: soft > has_trigger.into(),
        }
    }
}

/// The address of a `struct trace_array`. `Display` writes ` in the instance NAME`, or nothing for
/// the top trace instance.
struct Instance(usize);

impl Instance {
    /// The maximum length of the written name, in bytes.
    const MAX_LEN: usize = 64;

    /// Reads the name. `None` for the top trace instance.
    ///
    /// No header declares the structure, so this function also tolerates another structure.
    fn read_name<'a>(&self, to: &'a mut [u8; Self::MAX_LEN]) -> Result<Option<&'a [u8]>, Fault> {
        let name = KernelPtr::<usize>::new(self.0.wrapping_add(size_of::<list_head>()));
        let name = KernelPtr::<u8>::new(name.read()?);
        if name.is_null() {
            return Ok(None);
        }
        let mut len = 0;
        for (index, byte) in to.iter_mut().enumerate() {
            *byte = name.at::<u8>(index).read()?;
            if *byte == 0 {
                break;
            }
            len = index.wrapping_add(1);
        }
        Ok(to.get(..len))
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.read_name(&mut [0; Self::MAX_LEN]) {
            Ok(None) => Ok(()),
            Ok(Some(name)) => match core::str::from_utf8(name) {
                Ok(name) => write!(f, " in the instance {name}"),
                Err(_) => f.write_str(" in an instance"),
            },
            Err(Fault) => f.write_str(" in an instance"),
        }
    }
}
