// SPDX-License-Identifier: GPL-2.0

//! The fields of an event, which all its probes share.

use kernel::{
    prelude::*,
    str::{
        CStr,
        CString, //
    },
};

use ktrace::trace_event::{
    Field,
    HEADER_LEN, //
};
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

const PROBE_IP: Field = Field::code(c"__probe_ip", 0);
const PROBE_FUNC: Field = Field::code(c"__probe_func", 0);
const PROBE_RET_IP: Field = Field::code(c"__probe_ret_ip", 1);

/// The fields that come before those of the arguments.
static PROBE_FIELDS: [Field; 1] = [PROBE_IP];
static RETURN_FIELDS: [Field; 2] = [PROBE_FUNC, PROBE_RET_IP];

/// The fields of an event.
pub(crate) struct Schema {
    kind: Kind,
    /// The event that an event probe is attached to.
    attached: Option<CString>,
    fields: KVec<(CString, fetch::Field)>,
    layout: Layout,
    /// `None` while there are no arguments.
    definition: Option<KBox<Definition>>,
}

/// The fields of an event and its print format, for the kernel.
struct Definition {
    fields: KVec<Field>,
    print_fmt: CString,
}

impl Schema {
    /// An event without fields of its own yet.
    pub(crate) fn new(kind: Kind, attached: Option<CString>) -> Self {
        Self {
            kind,
            attached,
            fields: KVec::new(),
            layout: Layout::new(),
            definition: None,
        }
    }

    /// Adds the field of an argument. The parser counts as well, so that there is room for it.
    pub(crate) fn add(&mut self, argument: &Argument<'_>) -> Result {
        let field = self.layout.add(argument).map_err(|fetch::TooBig| E2BIG)?;
        let name = CString::try_from_fmt(format_args!("{}", argument.name))?;
        Ok(self.fields.push((name, field), GFP_KERNEL)?)
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

    /// Defines the event for the kernel, once it has all fields.
    pub(crate) fn define(&mut self) -> Result {
        if self.fields.is_empty() {
            return Ok(());
        }
        let mut fields = KVec::with_capacity(2 + self.fields.len(), GFP_KERNEL)?;
        match self.head() {
            Head::Probe => fields.push(PROBE_IP, GFP_KERNEL)?,
            Head::Return => {
                fields.push(PROBE_FUNC, GFP_KERNEL)?;
                fields.push(PROBE_RET_IP, GFP_KERNEL)?;
            }
            Head::Event => {}
        }
        for (name, field) in &self.fields {
            let name = CString::try_from(&**name)?;
            let ty = CString::try_from_fmt(format_args!("{}", field.type_text()))?;
            let offset = self.fields_at() + field.offset();
            let (size, is_signed) = (field.bytes(), field.is_signed());
            let field = if field.is_dynamic() {
                // SAFETY: `fetch::record` locates what it has put into the record, and the
                // `Recorder` tells it where that starts.
                unsafe { Field::located(name, ty, offset, size, is_signed) }
            } else {
                Field::new(name, ty, offset, size, is_signed)
            };
            fields.push(field?, GFP_KERNEL)?;
        }
        let print_fmt = CString::try_from_fmt(format_args!(
            "{}",
            PrintFmt {
                head: self.head(),
                fields: self.fields(),
            }
        ))?;
        self.definition = Some(KBox::new(Definition { fields, print_fmt }, GFP_KERNEL)?);
        Ok(())
    }

    /// All fields behind the header, for the kernel.
    pub(crate) fn kernel_fields(&self) -> &[Field] {
        match (&self.definition, self.head()) {
            (Some(definition), _) => &definition.fields,
            (None, Head::Probe) => &PROBE_FIELDS,
            (None, Head::Return) => &RETURN_FIELDS,
            (None, Head::Event) => &[],
        }
    }

    /// How user space prints a record.
    pub(crate) fn print_fmt(&self) -> &CStr {
        match &self.definition {
            Some(definition) => &definition.print_fmt,
            None => self.head().print_fmt(),
        }
    }
}

/// Names come out of a line that was checked to be text.
fn text(name: &CStr) -> &str {
    name.to_str().unwrap_or("")
}
