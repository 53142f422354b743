// SPDX-License-Identifier: GPL-2.0

//! An event that implements the traits of ktrace itself.

use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};

use ktrace::trace_event::{
    Definition,
    EventMutex,
    EventMutexHeld,
    Field,
    Group,
    NewName,
    Operations,
    Origin,
    Print,
    Sink,
    TraceEvent,
    TraceSeq,
    HEADER_LEN, //
};

/// The group of all events of this module.
pub(crate) const GROUP: &CStr = c"rust_everything";

const LEN: usize = HEADER_LEN + size_of::<usize>();

static FIELDS: [Field; 1] = [Field::code(c"at", 0)];

/// The event `function`. Each record has an address.
pub(crate) struct Addresses(Sink);

impl Addresses {
    pub(crate) fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self(Sink::new()), GFP_KERNEL)?)
    }

    /// Records an address. Any context.
    pub(crate) fn record(&self, origin: &impl Origin, address: usize) {
        self.0.record(origin, LEN, |record| {
            if let Some(to) = record.first_chunk_mut() {
                *to = address.to_ne_bytes();
            }
        });
    }

    /// Adds the event. The mutex is released before another error drops it.
    pub(crate) fn register(self: Arc<Self>, module: &'static ThisModule) -> Result<TraceEvent> {
        let definition = Definition {
            name: NewName::new(Group::new(GROUP, module)?, CString::try_from(c"function")?)?,
            operations: self.clone(),
            print: self,
        };
        EventMutex::with(|token| TraceEvent::register(token, definition))?
    }
}

impl Operations for Addresses {
    fn sink(&self) -> &Sink {
        &self.0
    }

    fn fields(&self) -> &[Field] {
        &FIELDS
    }

    fn print_fmt(&self) -> &CStr {
        c"\"at=%lx\", REC->at"
    }

    fn enable(&self, _: &EventMutexHeld) -> Result {
        Ok(())
    }

    fn disable(&self, _: &EventMutexHeld) {}
}

impl Print for Addresses {
    fn print(&self, name: &CStr, record: &[u8], seq: &mut TraceSeq) {
        let address = record
            .get(HEADER_LEN..)
            .and_then(|fields| fields.first_chunk())
            .map_or(0, |bytes| usize::from_ne_bytes(*bytes));
        seq.bytes(name.to_bytes());
        seq.bytes(b": at=");
        seq.symbol(address);
        seq.bytes(b"\n");
    }
}
