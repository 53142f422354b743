// SPDX-License-Identifier: GPL-2.0

//! What all probes of an event have in common: its name and its fields.

use kernel::{
    prelude::*,
    str::{
        CStr,
        CString, //
    },
};

use ktrace::trace_event::HEADER_LEN;
use probe::{
    argument::Argument,
    command::Kind,
    fetch::{
        self,
        Head,
        Layout,
        PrintFmt, //
    },
};

/// The size of an address in a record, in bytes.
const WORD: usize = size_of::<u64>();

/// The name and the fields of an event.
pub(crate) struct Schema {
    name: CString,
    kind: Kind,
    /// The event that an event probe is attached to.
    attached: Option<CString>,
    fields: KVec<(CString, fetch::Field)>,
    layout: Layout,
}

impl Schema {
    /// An event without fields of its own yet.
    pub(crate) fn new(name: CString, kind: Kind, attached: Option<CString>) -> Self {
        Self {
            name,
            kind,
            attached,
            fields: KVec::new(),
            layout: Layout::new(),
        }
    }

    /// Adds the field of an argument. The parser counts as well, so that there is room for it.
    pub(crate) fn add(&mut self, argument: &Argument<'_>) -> Result {
        let field = self.layout.add(argument).map_err(|fetch::TooBig| E2BIG)?;
        let name = CString::try_from_fmt(format_args!("{}", argument.name))?;
        Ok(self.fields.push((name, field), GFP_KERNEL)?)
    }

    /// The name of the event.
    pub(crate) fn name(&self) -> &str {
        text(&self.name)
    }

    /// When its probes hit.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The event that an event probe is attached to, as `SYSTEM.NAME`.
    pub(crate) fn attached(&self) -> &str {
        self.attached.as_deref().map_or("", text)
    }

    /// What comes before the fields.
    pub(crate) fn head(&self) -> Head {
        match self.kind {
            Kind::Event => Head::Event,
            kind if kind.is_return() => Head::Return,
            _ => Head::Probe,
        }
    }

    /// The fields with their names.
    pub(crate) fn fields(&self) -> impl ExactSizeIterator<Item = (&str, fetch::Field)> + Clone {
        self.fields.iter().map(|(name, field)| (text(name), *field))
    }

    /// Where the fields are, together.
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// Where the fields start in a record, in bytes.
    pub(crate) fn fields_at(&self) -> usize {
        HEADER_LEN
            + match self.head() {
                Head::Probe => WORD,
                Head::Return => 2 * WORD,
                Head::Event => 0,
            }
    }

    /// The definition of the event, for the kernel: fields and print format.
    pub(crate) fn define(&self) -> Result<(KVec<ktrace::trace_event::Field>, CString)> {
        let head: &[&'static CStr] = match self.head() {
            Head::Probe => &[c"__probe_ip"],
            Head::Return => &[c"__probe_func", c"__probe_ret_ip"],
            Head::Event => &[],
        };
        let mut fields = KVec::with_capacity(head.len() + self.fields.len(), GFP_KERNEL)?;
        for (index, name) in head.iter().enumerate() {
            let field = ktrace::trace_event::Field::new(
                *name,
                c"unsigned long",
                HEADER_LEN + index * WORD,
                WORD,
                false,
            )?;
            fields.push(field, GFP_KERNEL)?;
        }
        for (name, field) in &self.fields {
            let name = CString::try_from(&**name)?;
            let ty = CString::try_from_fmt(format_args!("{}", field.type_text()))?;
            let offset = self.fields_at() + field.offset();
            let (size, is_signed) = (field.bytes(), field.is_signed());
            let field = if field.is_dynamic() {
                // SAFETY: `fetch::record` locates what it has put into the record, and the
                // `Recorder` tells it where that starts.
                unsafe { ktrace::trace_event::Field::located(name, ty, offset, size, is_signed) }
            } else {
                ktrace::trace_event::Field::new(name, ty, offset, size, is_signed)
            };
            fields.push(field?, GFP_KERNEL)?;
        }
        let print_fmt = PrintFmt {
            head: self.head(),
            fields: self.fields(),
        };
        Ok((fields, CString::try_from_fmt(format_args!("{print_fmt}"))?))
    }
}

/// Names come out of a line that was checked to be text.
fn text(name: &CStr) -> &str {
    name.to_str().unwrap_or("")
}
