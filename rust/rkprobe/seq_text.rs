// SPDX-License-Identifier: GPL-2.0

//! The text of a table in a control file.

use core::fmt::{
    self,
    Write, //
};

use kernel::seq_file::SeqFile;

use ktrace::{
    nofault,
    symbol,
    trace_event::error_name, //
};
use probe::{
    fetch::Output,
    histogram::HistogramOutput, //
};

use crate::symbols;

/// Writes the text of a table to a control file. This does not fail: the kernel detects an
/// overflow.
pub(crate) struct SeqText<'a> {
    to: &'a SeqFile,
    /// The address and the length of the kernel's `sys_call_table`, if it can be found. `None`
    /// before the first look.
    syscalls: Option<Option<(usize, usize)>>,
}

impl<'a> SeqText<'a> {
    pub(crate) fn new(to: &'a SeqFile) -> Self {
        Self { to, syscalls: None }
    }

    /// Writes a symbol, and spaces up to a length of `width` bytes.
    fn padded(&mut self, address: u64, with_offset: bool, width: usize) -> fmt::Result {
        let mut buffer = [0; symbol::LEN];
        let name = symbol::format(address as usize, with_offset, &mut buffer);
        self.bytes(name)?;
        write!(self, "{:1$}", "", width.saturating_sub(name.len()))
    }

    /// The address of the function of a system call.
    fn syscall_function(&mut self, number: u64) -> Option<usize> {
        const WORD: usize = size_of::<usize>();

        let find = || {
            symbols::address_of("sys_call_table")
                .ok()
                .and_then(symbol::extent)
        };
        let (table, len) = (*self.syscalls.get_or_insert_with(find))?;
        let number = usize::try_from(number).ok()?;
        if number >= len / WORD {
            return None;
        }
        let mut word = [0; WORD];
        nofault::read_kernel(table + number * WORD, &mut word).ok()?;
        Some(usize::from_ne_bytes(word))
    }
}

impl fmt::Write for SeqText<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.to.call_printf(format_args!("{text}"));
        Ok(())
    }
}

impl Output for SeqText<'_> {
    /// Bytes that are not UTF-8 and control characters become `?`, so a task cannot write lines.
    fn bytes(&mut self, bytes: &[u8]) -> fmt::Result {
        for chunk in bytes.utf8_chunks() {
            let mut parts = chunk.valid().split(char::is_control);
            self.write_str(parts.next().unwrap_or(""))?;
            for part in parts {
                self.write_str("?")?;
                self.write_str(part)?;
            }
            for _ in chunk.invalid() {
                self.write_str("?")?;
            }
        }
        Ok(())
    }

    fn symbol(&mut self, address: u64) -> fmt::Result {
        self.padded(address, true, 0)
    }

    fn error_name(&self, number: u16) -> Option<&'static str> {
        error_name(number)
    }

    fn function(&mut self, address: u64) -> fmt::Result {
        self.padded(address, false, 0)
    }
}

impl HistogramOutput for SeqText<'_> {
    fn symbol_name(&mut self, address: u64, width: usize) -> fmt::Result {
        self.padded(address, false, width)
    }

    fn padded_symbol(&mut self, address: u64, width: usize) -> fmt::Result {
        self.padded(address, true, width)
    }

    /// The kernel's functions have names such as `__x64_sys_read`.
    fn syscall(&mut self, number: u64, width: usize) -> fmt::Result {
        let mut buffer = [0; symbol::LEN];
        let location = self
            .syscall_function(number)
            .and_then(|function| symbol::location(function, &mut buffer));
        let name = location
            .filter(|location| location.offset == 0)
            .and_then(|location| {
                location
                    .name
                    .find("sys_")
                    .and_then(|at| location.name.get(at..))
            })
            .unwrap_or("unknown_syscall");
        write!(self, "{name:<width$}")
    }
}
