// SPDX-License-Identifier: GPL-2.0

//! The content of a command, in the kernel's memory. Crate `probe` has the logic: [`ProbeSpec`].

use core::fmt::{
    self,
    Write as _, //
};

use kernel::{
    prelude::*,
    str::CString, //
};

use probe::command::{
    Command,
    EventName,
    NameParts,
    ProbeSpec,
    SpecText,
    TargetParts,
    WrittenArgument, //
};

/// The content of a command.
pub(crate) type Spec = ProbeSpec<StoredText>;

// One of the registry's lists has a `Spec` for each probe.
const _: () = assert!(size_of::<Spec>() <= 64);

/// The text of a [`Spec`], with the parts of its target. Most texts without arguments are short and
/// need no allocation.
pub(crate) enum StoredText {
    Short(NameParts, ShortText),
    ShortAddress(u64, ShortText),
    Long(TargetParts, CString),
}

impl StoredText {
    /// `ENOMEM`.
    fn new(text: fmt::Arguments<'_>, target: TargetParts) -> Result<Self> {
        let mut short = ShortText {
            len: 0,
            bytes: [0; ShortText::MAX],
        };
        Ok(match (short.write_fmt(text), target) {
            (Ok(()), TargetParts::Names(names)) => Self::Short(names, short),
            (Ok(()), TargetParts::Address(address)) => Self::ShortAddress(address, short),
            _ => Self::Long(target, CString::try_from_fmt(text)?),
        })
    }
}

impl SpecText for StoredText {
    fn text(&self) -> &str {
        let bytes = match self {
            Self::Short(_, short) | Self::ShortAddress(_, short) => short.as_bytes(),
            Self::Long(_, text) => text.to_bytes(),
        };
        // It was formatted as text.
        core::str::from_utf8(bytes).unwrap_or("")
    }

    fn target(&self) -> TargetParts {
        match self {
            Self::Short(names, _) => TargetParts::Names(*names),
            Self::ShortAddress(address, _) => TargetParts::Address(*address),
            Self::Long(target, _) => *target,
        }
    }
}

/// A text of at most [`MAX`](Self::MAX) bytes.
pub(crate) struct ShortText {
    len: u8,
    bytes: [u8; ShortText::MAX],
}

impl ShortText {
    /// Long enough for most functions without arguments.
    const MAX: usize = 46;

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or(&[])
    }
}

/// Fails if the text is too long.
impl fmt::Write for ShortText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let start = usize::from(self.len);
        let end = start.saturating_add(text.len());
        let to = self.bytes.get_mut(start..end).ok_or(fmt::Error)?;
        to.copy_from_slice(text.as_bytes());
        self.len = u8::try_from(end).map_err(|_| fmt::Error)?;
        Ok(())
    }
}

/// Creates the value of a command with the arguments `written`. `ENOMEM`.
#[inline(never)]
pub(crate) fn new(
    command: &Command<'_>,
    written: &[WrittenArgument<'_>],
    name: &EventName<'_>,
) -> Result<Spec> {
    Spec::new(command, written, name, StoredText::new)
}

/// Copies a value. `ENOMEM`.
pub(crate) fn try_clone(spec: &Spec) -> Result<Spec> {
    spec.try_clone(|text| StoredText::new(format_args!("{}", text.text()), text.target()))
}
