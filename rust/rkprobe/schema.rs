// SPDX-License-Identifier: GPL-2.0

//! The fields of an event. All its probes share them.

use kernel::{
    prelude::*,
    str::{
        CStr,
        CString, //
    },
    sync::Arc, //
};

use ktrace::{
    percpu::Scratch,
    trace_event::{
        error_name,
        Field,
        Number,
        HEADER_LEN,
        MAX_LEN, //
    },
};
use probe::{
    argument::Argument,
    call_tree::StepRecord,
    command::ProbeKind,
    fetch::{
        self,
        Head,
        Layout,
        PrintFmt, //
    }, //
};

use crate::tally::Tally;

/// Buffers that assemble the fields of events with strings: the length of such a record is known
/// after its strings were read.
pub(crate) type StringBuffer = Scratch<MAX_LEN>;

/// Size of an address in a record, in bytes.
const WORD: usize = size_of::<u64>();

const PROBE_IP: Field = Field::code(c"__probe_ip", 0);
const PROBE_FUNC: Field = Field::code(c"__probe_func", 0);
const PROBE_RET_IP: Field = Field::code(c"__probe_ret_ip", 1);

/// Fields that precede the fields of the arguments.
static PROBE_FIELDS: [Field; 1] = [PROBE_IP];
static RETURN_FIELDS: [Field; 2] = [PROBE_FUNC, PROBE_RET_IP];

/// The fields of an event.
pub(crate) struct Schema {
    kind: ProbeKind,
    layout: Layout,
    /// `None` for an event without arguments that is not attached to another event.
    details: Option<KBox<Details>>,
}

/// The part of a [`Schema`] that most events do not have.
#[derive(Default)]
struct Details {
    /// For an event probe: the other event, as `SYSTEM.NAME`.
    attached: Option<CString>,
    /// Names and fields of the arguments.
    arguments: KVec<(CString, fetch::Field)>,
    /// All fields, as the kernel defines them. Empty before [`Schema::define`].
    fields: KVec<Field>,
    /// Print format, for user space. `None` before [`Schema::define`].
    print_fmt: Option<CString>,
    /// Only for an event with strings, and for one that compares its records.
    strings: Option<Arc<StringBuffer>>,
    /// Only for an event that counts, and makes no records.
    tally: Option<Arc<Tally>>,
}

impl Schema {
    /// Creates a schema without arguments. An event probe is attached to the event `attached`.
    /// `ENOMEM`.
    pub(crate) fn new(kind: ProbeKind, attached: Option<CString>) -> Result<Self> {
        let mut schema = Self {
            kind,
            layout: Layout::new(),
            details: None,
        };
        if attached.is_some() {
            schema.details_mut()?.attached = attached;
        }
        Ok(schema)
    }

    fn details_mut(&mut self) -> Result<&mut Details> {
        let details = match self.details.take() {
            Some(details) => details,
            None => KBox::new(Details::default(), GFP_KERNEL)?,
        };
        Ok(self.details.insert(details))
    }

    /// Adds the field of an argument. `ENOMEM`, and `E2BIG` if the record gets too long. The parser
    /// checks the length too, so it reports the error first.
    pub(crate) fn add(&mut self, argument: &Argument<'_>) -> Result {
        let field = self.layout.add(argument).map_err(|fetch::TooBig| E2BIG)?;
        let name = CString::try_from_fmt(format_args!("{}", argument.name))?;
        let details = self.details_mut()?;
        Ok(details.arguments.push((name, field), GFP_KERNEL)?)
    }

    /// Sets the buffer. `ENOMEM`.
    pub(crate) fn set_strings(&mut self, strings: Arc<StringBuffer>) -> Result {
        self.details_mut()?.strings = Some(strings);
        Ok(())
    }

    /// The buffer that the fields of a record are assembled in, if the event has it.
    pub(crate) fn strings(&self) -> Option<&Arc<StringBuffer>> {
        self.details.as_ref()?.strings.as_ref()
    }

    /// Sets the table of an event that counts. `ENOMEM`.
    pub(crate) fn set_tally(&mut self, tally: Arc<Tally>) -> Result {
        self.details_mut()?.tally = Some(tally);
        Ok(())
    }

    /// The table, if the event counts and makes no records.
    pub(crate) fn tally(&self) -> Option<&Arc<Tally>> {
        self.details.as_ref()?.tally.as_ref()
    }

    /// Kind of the event's probes.
    pub(crate) fn kind(&self) -> ProbeKind {
        self.kind
    }

    /// For an event probe: the other event, as `SYSTEM.NAME`.
    pub(crate) fn attached(&self) -> &str {
        let details = self.details.as_ref();
        let attached = details.and_then(|details| details.attached.as_deref());
        attached.map_or("", text)
    }

    /// The part of a record that precedes the arguments.
    pub(crate) fn head(&self) -> Head {
        match self.kind {
            ProbeKind::EventProbe => Head::Event,
            kind if kind.is_return() => Head::Return,
            _ => Head::Probe,
        }
    }

    /// Names and fields of the arguments.
    pub(crate) fn fields(&self) -> impl ExactSizeIterator<Item = (&str, fetch::Field)> + Clone {
        let details = self.details.as_ref();
        let arguments = details.map_or(&[][..], |details| details.arguments.as_slice());
        arguments.iter().map(|(name, field)| (text(name), *field))
    }

    /// Places of the fields of the arguments.
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// The size of the fields at the start of a record that no program writes, in bytes.
    pub(crate) fn own_bytes(&self) -> usize {
        match self.kind {
            ProbeKind::CallTree => StepRecord::FIELD_BYTES,
            _ => 0,
        }
    }

    /// The size of the fields that programs write, in bytes.
    pub(crate) fn program_bytes(&self) -> usize {
        self.layout.bytes().saturating_sub(self.own_bytes())
    }

    /// Offset of the first argument in a record, in bytes.
    pub(crate) fn fields_at(&self) -> usize {
        HEADER_LEN
            + match self.head() {
                Head::Probe => WORD,
                Head::Return => 2 * WORD,
                Head::Event => 0,
            }
    }

    /// Creates the kernel's definition of the event, after all arguments were added. `ENOMEM`.
    #[inline(never)]
    pub(crate) fn define(&mut self) -> Result {
        if self.fields().len() == 0 {
            return Ok(());
        }
        let mut fields = KVec::with_capacity(2 + self.fields().len(), GFP_KERNEL)?;
        match self.head() {
            Head::Probe => fields.push(PROBE_IP, GFP_KERNEL)?,
            Head::Return => {
                fields.push(PROBE_FUNC, GFP_KERNEL)?;
                fields.push(PROBE_RET_IP, GFP_KERNEL)?;
            }
            Head::Event => {}
        }
        for (name, field) in self.fields() {
            let name = CString::try_from_fmt(format_args!("{name}"))?;
            let offset = self.fields_at() + field.offset();
            let field = match (Number::of(field.ty()), field.count()) {
                (Some(number), None) => Field::number(name, number, offset),
                (Some(number), Some(len)) => Field::array(name, number, len, offset),
                // SAFETY: `fetch::record` writes the location of a string with its NUL, or of a
                // NUL. The `Action` passes the start of the record.
                (None, len) => unsafe { Field::strings(name, len, offset, field.is_signed()) },
            };
            fields.push(field?, GFP_KERNEL)?;
        }
        let print_fmt = CString::try_from_fmt(format_args!(
            "{}",
            PrintFmt {
                head: self.head(),
                fields: self.fields(),
                error_name,
            }
        ))?;
        let details = self.details_mut()?;
        details.fields = fields;
        details.print_fmt = Some(print_fmt);
        Ok(())
    }

    /// All fields after the header, for the kernel.
    pub(crate) fn kernel_fields(&self) -> &[Field] {
        match (&self.details, self.head()) {
            (Some(details), _) => &details.fields,
            (None, Head::Probe) => &PROBE_FIELDS,
            (None, Head::Return) => &RETURN_FIELDS,
            (None, Head::Event) => &[],
        }
    }

    /// Print format of the records, for user space.
    pub(crate) fn print_fmt(&self) -> &CStr {
        let details = self.details.as_ref();
        let print_fmt = details.and_then(|details| details.print_fmt.as_deref());
        print_fmt.unwrap_or(self.head().print_fmt())
    }
}

/// A name as `str`. All names are parts of a command, which was checked to be UTF-8.
fn text(name: &CStr) -> &str {
    name.to_str().unwrap_or("")
}
