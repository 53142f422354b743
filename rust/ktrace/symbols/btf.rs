// SPDX-License-Identifier: GPL-2.0

//! The BTF of the kernel and of its modules.
//!
//! The kernel exports no function that looks up a type. But the files under `/sys/kernel/btf` hold
//! all of its BTF. This module reads these files, and crate `probe` interprets them.
//!
//! C: [`kernel/bpf/sysfs_btf.c`](srctree/kernel/bpf/sysfs_btf.c)

use core::{
    ops::Deref,
    ptr::NonNull, //
};

use kernel::{
    prelude::*,
    str::CString, //
};

use probe::btf::{
    Btf,
    Malformed,
    Sections,
    TypeKind, //
};

use crate::{
    files::file::File,
    modules::module,
    support::IN_TREE, //
};

/// The BTF of a module, with an index of its types. For the name `vmlinux`, the BTF of the kernel.
pub struct Object {
    bytes: BtfBytes,
    index: KVVec<u32>,
}

enum BtfBytes {
    /// The bytes of the file.
    Copied(KVVec<u8>),
    /// The BTF of the kernel itself.
    Kernel(&'static [u8]),
}

impl Deref for BtfBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Copied(bytes) => bytes,
            Self::Kernel(bytes) => bytes,
        }
    }
}

impl Object {
    /// Reads the BTF `name`. The BTF of a module needs the kernel's BTF as its `base`.
    ///
    /// The kernel's BTF needs about 6 MB (nothing if rkprobe is built in the kernel tree) and 0.5
    /// MB for the index. Reading the kernel's BTF takes some milliseconds. Process context; sleeps.
    /// `ENOENT` if no BTF has this name, `ENOMEM`, `EINVAL` if the BTF cannot be parsed.
    pub fn read(name: &str, base: Option<&Btf<'_>>) -> Result<Self> {
        let bytes = read(name)?;
        let malformed = |_: Malformed| EINVAL;
        let sections = Sections::parse(&bytes, base).map_err(malformed)?;
        let slots = sections.slots().map_err(malformed)?;
        let mut index = KVVec::from_elem(0, slots, GFP_KERNEL)?;
        sections.index(&mut index).map_err(malformed)?;
        Ok(Self { bytes, index })
    }

    /// Finds a module that has a structure `name`, and reads the BTF of this module. `None` if no
    /// module has one. The kernel itself must have no such structure.
    ///
    /// Reads the BTF of the modules one after the other. Process context; sleeps. `ENOMEM`.
    pub fn with_structure(name: &str, kernel: &Btf<'_>) -> Result<Option<Self>> {
        let modules = module::names()?;
        for module in modules.split(|&byte| byte == b'\n') {
            let module = core::str::from_utf8(module).unwrap_or("");
            let object = match Self::read(module, Some(kernel)) {
                Err(ENOMEM) => return Err(ENOMEM),
                // The module has no BTF, or was unloaded.
                Err(_) => continue,
                Ok(object) => object,
            };
            if object
                .btf(Some(kernel))?
                .find(name, TypeKind::Struct)
                .is_some()
            {
                return Ok(Some(object));
            }
        }
        Ok(None)
    }

    /// The types. `base` must be the base that they were read with.
    pub fn btf<'a>(&'a self, base: Option<&'a Btf<'a>>) -> Result<Btf<'a>> {
        let sections = Sections::parse(&self.bytes, base).map_err(|_| EINVAL)?;
        Ok(sections.indexed(&self.index))
    }
}

extern "C" {
    fn rkprobe_btf(len: *mut usize) -> *const u8;
}

/// The kernel's BTF, if it is available without a file. An out-of-tree module must read the file.
fn kernel_btf() -> Option<&'static [u8]> {
    if !IN_TREE {
        return None;
    }
    let mut len = 0;
    // SAFETY: `len` is a valid destination for the length.
    let bytes = NonNull::new(unsafe { rkprobe_btf(&mut len) }.cast_mut())?;
    // SAFETY: `rkprobe_btf` returned the kernel's own BTF, of `len` bytes. The BTF stays in place
    // while the kernel runs, and does not change.
    Some(unsafe { core::slice::from_raw_parts(bytes.as_ptr(), len) })
}

/// Reads the bytes of the file `name`.
fn read(name: &str) -> Result<BtfBytes> {
    if let Some(bytes) = kernel_btf().filter(|_| name == "vmlinux") {
        return Ok(BtfBytes::Kernel(bytes));
    }
    // The name must be the name of a module, and not a path to another directory.
    if name.contains('/') {
        return Err(ENOENT);
    }
    let path = CString::try_from_fmt(format_args!("kernel/btf/{name}"))?;
    Ok(BtfBytes::Copied(File::open(&path)?.read_all()?))
}
