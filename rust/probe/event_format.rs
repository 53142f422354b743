// SPDX-License-Identifier: GPL-2.0

//! The file `format` of an event in tracefs.

/// The number of the event, from the start of the file: the line `ID: NUMBER`.
///
/// C: `f_show()` in `kernel/trace/trace_events.c`.
///
/// # Examples
///
/// ```
/// let text = b"name: sched_switch\nID: 316\nformat:\n\tfield:unsigned short common_type;";
/// assert_eq!(probe::event_format::number(text), Some(316));
/// assert_eq!(probe::event_format::number(b"name: ID\n"), None);
/// ```
pub fn number(text: &[u8]) -> Option<u32> {
    let mut lines = text.split(|&byte| byte == b'\n');
    let number = lines.find_map(|line| line.strip_prefix(b"ID: "))?;
    core::str::from_utf8(number).ok()?.parse().ok()
}
