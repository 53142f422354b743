// SPDX-License-Identifier: GPL-2.0

//! The content of a command, in the kernel's memory. Crate `probe` has the logic: [`ProbeSpec`].

use core::fmt;

use kernel::{
    prelude::*,
    str::CString, //
};

use probe::command::{
    Command,
    EventName,
    ProbeSpec, //
};

/// The content of a command.
pub(crate) type Spec = ProbeSpec<SpecText>;

/// The text of a [`Spec`].
pub(crate) struct SpecText(CString);

impl AsRef<str> for SpecText {
    fn as_ref(&self) -> &str {
        // It was formatted as text.
        self.0.to_str().unwrap_or("")
    }
}

/// Creates the value of a command. `ENOMEM`.
pub(crate) fn new(command: &Command<'_>, name: &EventName<'_>) -> Result<Spec> {
    let make = |text: fmt::Arguments<'_>| Ok(SpecText(CString::try_from_fmt(text)?));
    Spec::new(command, name, make)
}

/// Copies a value. `ENOMEM`.
pub(crate) fn try_clone(spec: &Spec) -> Result<Spec> {
    spec.try_clone(|text| Ok(SpecText(CString::try_from(&*text.0)?)))
}
