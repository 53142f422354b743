// SPDX-License-Identifier: GPL-2.0

//! Groups of events.

use kernel::{
    prelude::*,
    str::{
        CStr,
        CString, //
    },
    sync::Arc,
    types::Opaque,
    ThisModule, //
};

use probe::command::is_valid_group;

use crate::bindings;

use super::field_list::SharedLists;

/// A directory below `events/`, for any number of events of a module.
///
/// Several groups can have one name. These groups share the directory. C: `struct
/// trace_event_class`.
pub struct Group {
    /// The target of `class.system`.
    name: CString,
    class: Opaque<bindings::trace_event_class>,
    owner: &'static ThisModule,
    field_lists: SharedLists,
}

// SAFETY: The kernel only reads the class.
unsafe impl Send for Group {}
// SAFETY: The kernel only reads the class.
unsafe impl Sync for Group {}

// Rust only copies this class.
#[allow(improper_ctypes)]
extern "C" {
    static ktrace_call_class: bindings::trace_event_class;
}

impl Group {
    /// Creates a group for events of the module `owner`.
    ///
    /// `EINVAL` if the name does not have 1 to 63 letters, digits, `_` and `-`, or starts with a
    /// digit. `ENOMEM`.
    pub fn new(name: &CStr, owner: &'static ThisModule) -> Result<Arc<Self>> {
        if !is_valid_group(name.to_bytes()) {
            return Err(EINVAL);
        }
        let name = CString::try_from(name)?;
        // SAFETY: The class is a C constant, so no code changes it.
        let mut class = unsafe { (&raw const ktrace_call_class).read() };
        class.system = name.as_char_ptr();
        let class = Opaque::new(class);
        let group = Self {
            name,
            class,
            owner,
            field_lists: SharedLists::new(),
        };
        Ok(Arc::new(group, GFP_KERNEL)?)
    }

    /// The name of the group's directory.
    pub fn name(&self) -> &CStr {
        &self.name
    }

    /// The class of the group's events. The kernel may use the class while the group lives.
    pub(super) fn class(&self) -> *mut bindings::trace_event_class {
        self.class.get()
    }

    /// The lists of fields that the group's events share.
    pub(super) fn field_lists(&self) -> &SharedLists {
        &self.field_lists
    }

    /// The module that the users of the group's events need.
    pub(super) fn owner(&self) -> &'static ThisModule {
        self.owner
    }
}
