// SPDX-License-Identifier: GPL-2.0

//! The name of a new event.

use kernel::{
    ffi::c_char,
    prelude::*,
    str::CString,
    sync::Arc, //
};

use probe::command::is_valid_event_directory;

use crate::{
    event::{
        mutex::EventMutexHeld,
        registration::group::Group, //
    },
    files::file, //
};

/// The name of a new event, in its group.
pub struct NewName {
    pub(super) group: Arc<Group>,
    pub(super) name: CString,
}

impl NewName {
    /// Checks the name of an event that does not exist yet.
    ///
    /// `EINVAL` if the name does not have 1 to 63 visible ASCII characters, contains a `/`, or
    /// starts with a `.`. The kernel's tools accept only letters, digits and `_`. `EEXIST` if an
    /// event of this name exists in the group. Context and other errors are those of [`exists`]. If
    /// two tasks register one name at the same time, both can succeed.
    pub fn new(group: Arc<Group>, name: CString) -> Result<Self> {
        if !is_valid_event_directory(name.to_bytes()) {
            return Err(EINVAL);
        }
        if exists(group.name(), &name)? {
            return Err(EEXIST);
        }
        Ok(Self { group, name })
    }
}

extern "C" {
    static ktrace_control_system: c_char;
}

/// Whether an event of this name exists, of any owner. Looks for the event's directory in tracefs.
///
/// Returns true for every name in the group `ftrace`, and for the control event of this crate,
/// because the kernel does not report a conflict with these events.
///
/// This function does not use `trace_get_event_file()`, because the kernel removes its event probes
/// even while a caller holds their file.
///
/// Process context; sleeps. `EDEADLK` with `event_mutex` held, `ENOMEM`. The function may miss an
/// event that is added concurrently. Two events of one name are distinct, but the files of one
/// event hide those of the other.
pub fn exists(group: &CStr, name: &CStr) -> Result<bool> {
    EventMutexHeld::check_not_current()?;
    // SAFETY: The C variable is a string, which lives as long as this crate.
    let control = unsafe { CStr::from_char_ptr(&raw const ktrace_control_system) };
    if group == c"ftrace" || (group == control && name == c"control") {
        return Ok(true);
    }
    is_in_events(group, name)
}

/// Whether tracefs has a directory for this event.
pub(super) fn is_in_events(group: &CStr, name: &CStr) -> Result<bool> {
    let (group, name) = (group.to_str()?, name.to_str()?);
    file::is_in_tracefs(&CString::try_from_fmt(format_args!(
        "events/{group}/{name}"
    ))?)
}
