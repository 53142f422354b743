// SPDX-License-Identifier: GPL-2.0

//! The parts of an object probe: the table of live objects, the functions that may receive them,
//! and the changes to the table at the hits of other events.

use core::{
    iter,
    num::NonZero, //
};

use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};

use ktrace::{
    atomic::Word,
    ftrace,
    symbol, //
};
use probe::{
    arch::{
        current,
        Register,
        Slot, //
    },
    argument::{
        Argument,
        Name, //
    },
    btf::{
        Btf,
        TypeId, //
    },
    command::ObjectTarget,
    object_table::{
        self,
        Bucket,
        BucketStates,
        ObjectTable, //
    },
    sort::sort_by_key,
    types::{
        FetchType,
        Width, //
    },
};

use crate::{
    collect::collect,
    patterns::Patterns, //
};

/// The live objects of an object probe.
pub(crate) type Objects = ObjectTable<KVVec<Bucket<Word>>, KVVec<BucketStates<Word>>, Word>;

/// The number of live objects, if the command has none.
const DEFAULT_OBJECTS: u32 = 1024;

/// Creates the table for the objects of a command. `ENOMEM`.
pub(crate) fn new_table(target: &ObjectTarget<'_>) -> Result<Arc<Objects>> {
    let limit = target.objects.map_or(DEFAULT_OBJECTS, |limit| limit.get());
    let len = object_table::buckets(limit);
    let states = match Selection::of(target).is_all() {
        true => 0,
        false => len,
    };
    let table = ObjectTable::new(
        collect(iter::repeat_with(Bucket::default).take(len))?,
        collect(iter::repeat_with(BucketStates::default).take(states))?,
        limit,
    );
    Ok(Arc::new(table, GFP_KERNEL)?)
}

/// The calls with a live object that have a record.
#[derive(Clone, Copy)]
pub(crate) struct Selection {
    /// The number of records of an object, if it has an end.
    pub(crate) hits: Option<NonZero<u32>>,
    /// Whether only a call with other values than the one before has a record.
    pub(crate) is_of_changes: bool,
}

impl Selection {
    /// The selection that a command makes.
    pub(crate) fn of(target: &ObjectTarget<'_>) -> Self {
        Self {
            hits: target.hits,
            is_of_changes: target.changes.is_some(),
        }
    }

    /// Whether all calls have a record.
    pub(crate) fn is_all(self) -> bool {
        self.hits.is_none() && !self.is_of_changes
    }
}

/// The change that a hit of an event makes to the table of an object probe.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    /// Adds the object: it is live from now on.
    Add,
    /// Removes the object.
    Remove,
}

/// Changes the table of an object probe at the hits of another event.
#[derive(Clone)]
pub(crate) struct Feed {
    pub(crate) objects: Arc<Objects>,
    pub(crate) change: Change,
    /// The name of the field with the address of the object.
    pub(crate) field: Arc<CString>,
}

impl Feed {
    /// The size of the field with the address of the object.
    pub(crate) const BYTES: u16 = size_of::<u64>() as u16;

    /// Whether an argument of the event is the address of the object.
    pub(crate) fn reads(&self, argument: &Argument<'_>) -> bool {
        let field = self.field.to_str().unwrap_or("");
        argument.name.is_same(Name::Given(field))
    }

    /// Changes the table. `fields` begins with the address of the object. Any context.
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    pub(crate) fn take(&self, fields: &[u8]) {
        if let Some(address) = fields.first_chunk() {
            let address = u64::from_ne_bytes(*address);
            match self.change {
                Change::Add => self.objects.add(address),
                Change::Remove => self.objects.remove(address),
            }
        }
    }
}

/// Whether the value of an argument can be the address of an object.
pub(crate) fn is_address(argument: &Argument<'_>) -> bool {
    matches!(argument.ty, FetchType::Number(Width::W8, _)) && argument.count.is_none()
}

/// The objects that an object probe follows, and the functions that may receive them.
pub(crate) struct Following {
    pub(crate) objects: Arc<Objects>,
    pub(crate) selection: Selection,
    /// The functions by the position of the parameter that may be an object. A function with
    /// several such parameters is in several of them.
    pub(crate) functions: KVec<ByParameter>,
}

/// The functions that may receive an object by the parameter at this position.
pub(crate) struct ByParameter {
    /// Counted from 0.
    pub(crate) position: u16,
    /// The register of this parameter.
    pub(crate) register: Register,
    pub(crate) addresses: KVVec<usize>,
}

/// Finds the functions of the kernel itself that take a pointer to this structure and whose names
/// are in the list. `None` if there are none.
///
/// Leaves out functions whose name several functions have, functions that ftrace cannot trace, and
/// parameters that are not in registers. Logs how many functions are left out.
///
/// Process context; sleeps, and may read files. `ENOMEM`, and `EPERM` if the kernel hides
/// addresses.
pub(crate) fn functions(
    btf: &Btf<'_>,
    structure: TypeId,
    patterns: &Patterns,
) -> Result<Option<KVec<ByParameter>>> {
    let receivers = btf.receivers(structure);
    let mut receivers = collect(receivers.filter(|found| patterns.matches(found.name)))?;
    sort_by_key(&mut receivers, |receiver| receiver.name);
    let names = collect(receivers.iter().map(|receiver| receiver.name))?;
    // 0 for a name without a symbol.
    let mut addresses = KVVec::from_elem(0usize, names.len(), GFP_KERNEL)?;
    symbol::each_named(&names, |index, address| {
        if let Some(place) = addresses.get_mut(index) {
            *place = match *place {
                0 => address,
                _ => REPEATED,
            };
        }
        Ok(())
    })?;

    let mut parameters = KVVec::with_capacity(receivers.len(), GFP_KERNEL)?;
    for (receiver, address) in receivers.iter().zip(&addresses) {
        if !matches!(*address, 0 | REPEATED) {
            parameters.push(receiver.parameters, GFP_KERNEL)?;
        }
    }
    // 0 and `REPEATED` stay out: they are no addresses of a function.
    addresses.retain(|address| !matches!(*address, 0 | REPEATED));
    let untraceable = ftrace::untraceable(&addresses)?;
    let mut groups = KVec::<ByParameter>::new();
    let mut taken = 0usize;
    for (index, (parameters, address)) in parameters.iter().zip(&addresses).enumerate() {
        if untraceable.binary_search(&index).is_ok() {
            continue;
        }
        taken += 1;
        for position in (0..32u16).filter(|position| *parameters >> position & 1 == 1) {
            let Slot::Register(register) = current::argument(position) else {
                continue;
            };
            let index = match groups.iter().position(|group| group.position == position) {
                Some(index) => index,
                None => {
                    let addresses = KVVec::new();
                    let group = ByParameter {
                        position,
                        register,
                        addresses,
                    };
                    groups.push(group, GFP_KERNEL)?;
                    groups.len() - 1
                }
            };
            if let Some(group) = groups.get_mut(index) {
                group.addresses.push(*address, GFP_KERNEL)?;
            }
        }
    }
    let left_out = receivers.len() - taken;
    if left_out > 0 {
        pr_info!("object probe: {taken} functions, {left_out} left out\n");
    }
    Ok((!groups.is_empty()).then_some(groups))
}

/// The address of a name that several symbols have.
const REPEATED: usize = usize::MAX;
