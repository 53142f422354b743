// SPDX-License-Identifier: GPL-2.0

//! Finds the functions that take a pointer to a structure.

use super::{
    function::Function,
    index::Btf,
    types::{
        Type,
        TypeId,
        TypeKind, //
    },
};

/// A function with parameters that are pointers to a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiver<'a> {
    /// The name of the function.
    pub name: &'a str,
    /// A bit for each parameter that is such a pointer. Bit 0 is the first parameter. The
    /// parameters after the first 32 have no bit.
    pub parameters: u32,
}

impl<'a> Btf<'a> {
    /// The structure or union that a pointer points to. The result can be a declaration without a
    /// definition. `None` if the type is not such a pointer.
    pub fn pointed_structure(&self, ty: Type<'a>) -> Option<Type<'a>> {
        let target = (ty.kind() == TypeKind::Ptr).then(|| ty.target())?;
        let ty = self.resolve(target)?;
        (ty.kind().has_members() || ty.kind() == TypeKind::Fwd).then_some(ty)
    }

    /// The functions of this BTF that take a pointer to `structure`, without the functions of the
    /// base.
    ///
    /// Reads all types.
    pub fn receivers(&self, structure: TypeId) -> impl Iterator<Item = Receiver<'a>> {
        let btf = *self;
        // Equal names have the same offset. A declaration has the name of its structure.
        let wanted = btf
            .resolve(structure)
            .map(|ty| ty.name)
            .filter(|name| *name != 0);
        btf.own_types().filter_map(move |id| {
            let function = Function::new(btf, id)?;
            let is_wanted = |ty| {
                let pointed = btf.pointed_structure(btf.resolve(ty)?)?;
                (Some(pointed.name) == wanted).then_some(())
            };
            let positions = function
                .param_types()
                .filter(|(_, ty)| is_wanted(*ty).is_some())
                .filter_map(|(position, _)| 1u32.checked_shl(position.into()));
            let parameters = positions.fold(0, |all, bit| all | bit);
            if parameters == 0 {
                return None;
            }
            // Most functions are left out, so this reads few names.
            let name = btf.name(btf.get(id)?)?;
            Some(Receiver { name, parameters })
        })
    }
}
