// SPDX-License-Identifier: GPL-2.0

//! Which return values of a function are errors, by the type that it returns in the kernel's BTF.

use std::collections::{
    BTreeMap,
    BTreeSet,
    HashMap, //
};

use probe::btf::{
    Btf,
    TypeId,
    TypeKind, //
};

use crate::{
    btf,
    failure::{
        Failure,
        Result, //
    },
    record::split_symbol, //
};

/// The lowest number that is an error. C: `MAX_ERRNO`.
pub const MIN_ERROR: i32 = -4095;
const MAX_ERROR: u64 = MIN_ERROR.unsigned_abs() as u64;

/// Types of points in time, whose low negative values are no errors.
const TIMES: [&str; 2] = ["ktime_t", "time64_t"];

/// The suffixes of the names that compilers give to changed copies of a function.
const SUFFIXES: [&str; 3] = [".isra.", ".constprop.", ".part."];

/// What a function returns.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Returned {
    /// Unknown, because BTF does not describe the function.
    #[default]
    Unknown,
    /// Nothing. After such a function, the register of the return value contains anything.
    Nothing,
    /// A type whose values are no errors, such as `bool`.
    NoError(String),
    /// A signed number of 32 bits.
    Int,
    /// 64 bits: a signed number or an `unsigned long`. C: `IS_ERR_VALUE()`.
    Word,
    /// A pointer. C: `IS_ERR()`.
    Pointer,
}

impl Returned {
    fn of(btf: &Btf<'_>, id: TypeId) -> Self {
        let mut name = "";
        let mut ty = btf.get(id);
        while let Some(modifier) = ty.filter(|ty| ty.kind().is_modifier()) {
            if modifier.kind() == TypeKind::Typedef && name.is_empty() {
                name = btf.name(modifier).unwrap_or("");
            }
            ty = btf.get(modifier.target());
        }
        let Some(ty) = ty else {
            return Self::Unknown;
        };
        // Only `unsigned long` itself can be an error. A `size_t` or a `u64` is a size, a time or a hash.
        let own = btf.name(ty).unwrap_or("");
        let can_be_error = name.is_empty() && matches!(own, "unsigned long" | "long unsigned int");
        let is_signed = ty.int().is_some_and(|int| int.is_signed()) && !TIMES.contains(&name);
        match (ty.kind(), ty.size()) {
            (TypeKind::Void, _) => Self::Nothing,
            (TypeKind::Ptr, _) => Self::Pointer,
            (TypeKind::Int, 8) if is_signed || can_be_error => Self::Word,
            (TypeKind::Int, 4) if is_signed => Self::Int,
            // The enumerators of such an enumeration can be negative.
            (TypeKind::Enum, 4) if ty.flag() => Self::Int,
            _ if name.is_empty() => Self::NoError(own.into()),
            _ => Self::NoError(name.into()),
        }
    }

    /// The positive number of the error that a return value is. `value` is the whole register.
    pub fn error(&self, value: u64) -> Option<u32> {
        let whole = value.wrapping_neg();
        // A number of 32 bits leaves anything in the upper half.
        let half = u64::from((value as u32).wrapping_neg());
        let number = match self {
            Self::Nothing | Self::NoError(_) => return None,
            Self::Word | Self::Pointer => whole,
            Self::Int => half,
            // A function with 32 bits leaves 0 in the upper half, mostly.
            Self::Unknown if value >> 32 == 0 => half,
            Self::Unknown => whole,
        };
        let is_error = (1..=MAX_ERROR).contains(&number);
        is_error.then(|| u32::try_from(number).ok())?
    }

    /// Why the function has no errors. `None` if it can have some.
    pub fn why_no_error(&self) -> Option<String> {
        match self {
            Self::Nothing => Some("returns nothing".into()),
            Self::NoError(name) => Some(format!("returns {name}")),
            _ => None,
        }
    }
}

/// A return value. The kernel can print a negative number as an unsigned one.
pub fn value(text: &str) -> u64 {
    text.parse::<i128>().map_or(0, |value| value as u64)
}

/// What BTF says about functions. The answers are kept.
#[derive(Default)]
pub struct Returns {
    kernel: Vec<u8>,
    known: HashMap<String, Returned>,
}

impl Returns {
    /// Looks up functions, `NAME` or `NAME [MODULE]`.
    pub fn look_up<'s>(&mut self, symbols: impl Iterator<Item = &'s str>) {
        self.look_up_with(symbols, |_, _, _| ());
    }

    /// The same. Calls `f` with each function that was unknown, its name, and the BTF of its module, if there is one.
    pub fn look_up_with<'s>(
        &mut self,
        symbols: impl Iterator<Item = &'s str>,
        mut f: impl FnMut(&'s str, &str, Option<&Btf<'_>>),
    ) {
        let is_new = |symbol: &&str| !self.known.contains_key(*symbol);
        let new: BTreeSet<&str> = symbols.filter(is_new).collect();
        if new.is_empty() {
            return;
        }
        if self.kernel.is_empty() {
            self.kernel = btf::read("vmlinux");
        }
        let mut index = Vec::new();
        let kernel = btf::parse(&self.kernel, None, &mut index);
        for (module, symbols) in by_module(new) {
            let mut bytes = Vec::new();
            let mut index = Vec::new();
            let own = kernel.as_ref().and_then(|kernel| match module {
                "" => Some(*kernel),
                _ => {
                    bytes = btf::read(module);
                    btf::parse(&bytes, Some(kernel), &mut index)
                }
            });
            for (symbol, name) in symbols {
                let own = own.as_ref();
                let returned = own.map_or(Returned::Unknown, |btf| returned_in(btf, name));
                self.known.insert(symbol.into(), returned);
                f(symbol, name, own);
            }
        }
    }

    /// Fails if a function that was looked up can have no error. `text` is the user's name for it.
    pub fn check_errors(&self, symbol: &str, text: &str) -> Result {
        match self.of(symbol).why_no_error() {
            Some(why) => Err(Failure::new(format!("{text} {why}, so no error either"))),
            None => Ok(()),
        }
    }

    /// The answers for some functions.
    #[cfg(test)]
    pub fn of_functions(known: &[(&str, Returned)]) -> Self {
        let known = known.iter().cloned();
        Self {
            known: known
                .map(|(name, returned)| (name.into(), returned))
                .collect(),
            ..Self::default()
        }
    }

    /// What a function returns that was looked up.
    pub fn of(&self, symbol: &str) -> Returned {
        self.known.get(symbol).cloned().unwrap_or_default()
    }
}

/// The symbols of each module, `NAME [MODULE]`, with their names. The kernel itself is the module without a name.
fn by_module(symbols: BTreeSet<&str>) -> BTreeMap<&str, Vec<(&str, &str)>> {
    let mut modules: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for symbol in symbols {
        let (name, module) = split_symbol(symbol);
        modules.entry(module).or_default().push((symbol, name));
    }
    modules
}

fn returned_in(btf: &Btf<'_>, name: &str) -> Returned {
    if let Some(function) = btf.function(name) {
        return Returned::of(btf, function.returned());
    }
    // A copy by the compiler returns what the function itself returns, or nothing. What can be no error is none.
    let base = SUFFIXES
        .iter()
        .filter_map(|suffix| Some(name.split_once(suffix)?.0))
        .min_by_key(|base| base.len());
    let function = base.and_then(|base| btf.function(base));
    function
        .map(|function| Returned::of(btf, function.returned()))
        .filter(|returned| returned.why_no_error().is_some())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::btf::builder::{
        Builder,
        BOOL,
        SIGNED, //
    };

    use super::*;

    #[test]
    fn symbols_have_modules() {
        let modules = by_module(BTreeSet::from(["f", "g [m]", "h"]));
        assert_eq!(modules[""], [("f", "f"), ("h", "h")]);
        assert_eq!(modules["m"], [("g [m]", "g")]);
    }

    #[test]
    fn knows_nothing_without_btf() {
        let mut returns = Returns {
            kernel: vec![1, 2, 3],
            ..Returns::default()
        };
        returns.look_up(["do_exit", "no_function [no_module]"].into_iter());
        assert_eq!(returns.of("do_exit"), Returned::Unknown);
        assert_eq!(returns.of("no_function [no_module]"), Returned::Unknown);
    }

    #[test]
    fn the_type_decides_what_is_an_error() {
        const TYPEDEF: u32 = 8;

        let mut types = Builder::new();
        let int = types.int("int", 4, SIGNED);
        let unsigned = types.int("unsigned int", 4, 0);
        let long = types.int("long", 8, SIGNED);
        let word = types.int("unsigned long", 8, 0);
        let bool = types.int("bool", 1, BOOL);
        let short = types.int("short", 2, SIGNED);
        let pointer = types.ptr(int);
        let size = types.refer(TYPEDEF, "size_t", word);
        let time = types.refer(TYPEDEF, "ktime_t", long);
        let ssize = types.refer(TYPEDEF, "ssize_t", long);
        let all = [
            ("nothing", TypeId::VOID, Returned::Nothing),
            ("int", int, Returned::Int),
            (
                "unsigned",
                unsigned,
                Returned::NoError("unsigned int".into()),
            ),
            ("long", long, Returned::Word),
            ("word", word, Returned::Word),
            ("bool", bool, Returned::NoError("bool".into())),
            ("short", short, Returned::NoError("short".into())),
            ("pointer", pointer, Returned::Pointer),
            ("size", size, Returned::NoError("size_t".into())),
            ("time", time, Returned::NoError("ktime_t".into())),
            ("ssize", ssize, Returned::Word),
        ];
        for (name, id, _) in &all {
            types.function(name, &[], *id);
        }
        let bytes = types.bytes();
        let mut index = Vec::new();
        let btf = btf::parse(&bytes, None, &mut index).unwrap();
        for (name, _, expected) in all {
            assert_eq!(returned_in(&btf, name), expected, "{name}");
        }
        for (name, expected) in [
            ("none", Returned::Unknown),
            ("int.isra.0", Returned::Unknown),
            ("nothing.part.0", Returned::Nothing),
            ("bool.constprop.0.isra.0", Returned::NoError("bool".into())),
        ] {
            assert_eq!(returned_in(&btf, name), expected, "{name}");
        }
    }

    #[test]
    fn an_error_has_the_bits_of_its_type() {
        const ENOENT: u64 = (-2_i64) as u64;
        const HALF: u64 = 0xffff_fffe;
        // C: `KTIME_MAX`.
        const LATE: u64 = i64::MAX as u64;

        let (two, one) = (Some(2), Some(1));
        for (returned, value, expected) in [
            (Returned::Int, ENOENT, two),
            (Returned::Int, HALF, two),
            (Returned::Int, LATE, one),
            (Returned::Word, ENOENT, two),
            (Returned::Word, HALF, None),
            (Returned::Pointer, ENOENT, two),
            (Returned::Pointer, HALF, None),
            (Returned::Word, LATE, None),
            (Returned::Unknown, ENOENT, two),
            (Returned::Unknown, HALF, two),
            (Returned::Unknown, LATE, None),
            (Returned::Nothing, ENOENT, None),
            (Returned::NoError("bool".into()), ENOENT, None),
            (Returned::Int, 0, None),
            (Returned::Word, (-4095_i64) as u64, Some(4095)),
            (Returned::Word, (-4096_i64) as u64, None),
        ] {
            assert_eq!(returned.error(value), expected, "{returned:?} {value:#x}");
        }
    }
}
