// SPDX-License-Identifier: GPL-2.0

//! An event, as its probes share it: the destination and the fields of its records.

use kernel::sync::atomic::Atomic;

use ktrace::trace_event::Sink;
use probe::hash::hash;

use crate::schema::Schema;

/// An event: the destination and the fields of its records. All probes of the event share it. With
/// the reference count, it takes at most 64 bytes, which is one of the allocator's sizes.
pub(crate) struct Records {
    pub(crate) sink: Sink,
    pub(crate) schema: Schema,
    pub(crate) state: EventState,
}

const _: () = assert!(size_of::<Records>() + size_of::<usize>() <= 64);

/// The state of an event in the registry. Only the holder of `REGISTRY` uses it.
pub(crate) struct EventState {
    /// No probe of the event has a lower number.
    pub(crate) first_probe: Atomic<u32>,
    /// Number of probes.
    pub(crate) probes: Atomic<u32>,
    pub(crate) is_enabled: Atomic<bool>,
    /// Hash of the group and the name. Finds an event among thousands without a look at each name.
    pub(crate) hash: u32,
}

impl Default for EventState {
    fn default() -> Self {
        Self {
            first_probe: Atomic::new(0),
            probes: Atomic::new(0),
            is_enabled: Atomic::new(false),
            hash: 0,
        }
    }
}

impl EventState {
    /// Creates the state of an event of this name, without probes.
    pub(crate) fn new(group: &str, name: &str) -> Self {
        Self {
            hash: Self::hash(group, name),
            ..Self::default()
        }
    }

    /// Hash of a group and a name.
    pub(crate) fn hash(group: &str, name: &str) -> u32 {
        (hash(group.as_bytes()) ^ hash(name.as_bytes()).rotate_left(1)) as u32
    }
}
