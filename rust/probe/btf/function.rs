// SPDX-License-Identifier: GPL-2.0

//! The parameters and the return type of a function.
//!
//! C: `btf_find_func_proto()` and `btf_get_func_param()` in `kernel/trace/trace_btf.c`,
//! `query_btf_context()` in `kernel/trace/trace_probe.c`.

use super::{
    index::Btf,
    types::{
        Type,
        TypeId,
        TypeKind, //
    },
};

/// A function.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    btf: Btf<'a>,
    proto: Type<'a>,
    is_tracepoint: bool,
}

/// A parameter of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param<'a> {
    /// The index of the parameter, counted from 0 over all parameters of the function.
    pub position: u16,
    /// The name of the parameter. Empty if it has no name.
    pub name: &'a str,
    /// The type of the parameter.
    pub ty: TypeId,
}

impl<'a> Btf<'a> {
    /// Finds a function by its name, as [`Self::find`] does.
    ///
    /// C: `btf_find_func_proto()`.
    pub fn function(&self, name: &str) -> Option<Function<'a>> {
        Function::new(*self, self.find(name, TypeKind::Func)?)
    }

    /// The names and the functions of this BTF, without those of the base.
    pub fn functions(&self) -> impl Iterator<Item = (&'a str, Function<'a>)> + use<'a> {
        let btf = *self;
        self.own_types().filter_map(move |id| {
            let ty = btf.get(id)?;
            let function = Function::of_type(btf, ty)?;
            Some((btf.name(ty)?, function))
        })
    }
}

impl<'a> Function<'a> {
    /// The function with this id. `None` if the type is not a function.
    pub(super) fn new(btf: Btf<'a>, id: TypeId) -> Option<Self> {
        Self::of_type(btf, btf.get(id)?)
    }

    fn of_type(btf: Btf<'a>, ty: Type<'a>) -> Option<Self> {
        if ty.kind() != TypeKind::Func {
            return None;
        }
        let proto = btf.get(ty.target())?;
        (proto.kind() == TypeKind::FuncProto).then_some(Self {
            btf,
            proto,
            is_tracepoint: false,
        })
    }

    /// The function as a callback of a tracepoint, without its first parameter, which only the
    /// callback uses. The other parameters keep their positions.
    ///
    /// C: `TPARG_FL_TPOINT`.
    pub const fn of_tracepoint(self) -> Self {
        Self {
            is_tracepoint: true,
            ..self
        }
    }

    /// The BTF that contains the function.
    pub const fn btf(&self) -> &Btf<'a> {
        &self.btf
    }

    /// The parameters. Excludes the `...` of a variadic function: it has no value, although C
    /// counts it.
    pub fn params(&self) -> impl Iterator<Item = Param<'a>> + use<'a> {
        let sections = self.btf.sections;
        self.words().map(move |(position, [name, ty])| Param {
            position,
            name: sections.text(name).unwrap_or(""),
            ty: TypeId::new(ty),
        })
    }

    /// The positions and the types of [`Self::params`]. It reads no names.
    pub(super) fn param_types(&self) -> impl Iterator<Item = (u16, TypeId)> + use<'a> {
        self.words()
            .map(|(position, [_, ty])| (position, TypeId::new(ty)))
    }

    /// The positions of the parameters, and the places of their names and types.
    fn words(&self) -> impl Iterator<Item = (u16, [u32; 2])> + use<'a> {
        let positions = 0..u16::MAX;
        positions
            .zip(self.proto.elements(0))
            .skip(usize::from(self.is_tracepoint))
            .filter(|(_, param)| *param != Self::VARIADIC)
    }

    /// The number of words of the arguments, if each argument is a word. `None` for a variadic
    /// function, and for one with a structure or another type that can take other registers.
    pub fn words_of_arguments(&self) -> Option<usize> {
        if self.is_variadic() {
            return None;
        }
        self.param_types().try_fold(0usize, |words, (_, id)| {
            let ty = self.btf.resolve(id)?;
            let is_word = match ty.kind() {
                TypeKind::Ptr | TypeKind::Enum | TypeKind::Enum64 => true,
                TypeKind::Int => ty.size() <= 8,
                _ => false,
            };
            is_word.then(|| words.wrapping_add(1))
        })
    }

    /// Finds a parameter by its name.
    pub fn find(&self, name: &str) -> Option<Param<'a>> {
        if name.is_empty() {
            return None;
        }
        self.params().find(|param| param.name == name)
    }

    /// The words of the parameter `...`, which has no name and no type.
    const VARIADIC: [u32; 2] = [0, 0];

    /// Whether the function is variadic.
    pub fn is_variadic(&self) -> bool {
        self.proto.elements(0).last() == Some(Self::VARIADIC)
    }

    /// The return type.
    pub const fn returned(&self) -> TypeId {
        self.proto.target()
    }

    /// Whether the function returns `void`.
    pub fn is_void(&self) -> bool {
        self.returned() == TypeId::VOID
    }
}
