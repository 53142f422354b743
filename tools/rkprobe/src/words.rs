// SPDX-License-Identifier: GPL-2.0

//! The words of registers, as people read them: the arguments and the return values of functions, by their types in
//! BTF.
//!
//! The words become the text that the kernel would print for them. So [`Values`] shows them as those of a record.

use std::collections::HashMap;

use probe::btf::{
    Btf,
    Param,
    TypeId,
    TypeKind, //
};
use serde_json::Value as Json;

use crate::{
    cause,
    errno,
    record::Record,
    returns::{
        Returned,
        Returns, //
    },
    tree::{
        Step,
        WORDS, //
    },
    values::{
        Members,
        More,
        Values, //
    }, //
};

/// The name of the field with the return value.
const RESULT: &str = "rkprobe_ret";

/// How the kernel prints a word.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// An address.
    Hex,
    /// A number with these bits.
    Unsigned(u32),
    Signed(u32),
}

impl Form {
    /// The form of a type. `None` if a register does not have the whole value.
    fn of(btf: &Btf<'_>, id: TypeId) -> Option<Self> {
        let ty = btf.resolve(id)?;
        let bits = u32::try_from(ty.size()).ok()?.checked_mul(8)?;
        match ty.kind() {
            TypeKind::Ptr => Some(Self::Hex),
            TypeKind::Enum | TypeKind::Enum64 => (bits <= 64).then_some(Self::Signed(bits)),
            TypeKind::Int if bits > 64 => None,
            TypeKind::Int if ty.int()?.is_signed() => Some(Self::Signed(bits)),
            TypeKind::Int => Some(Self::Unsigned(bits)),
            TypeKind::Struct | TypeKind::Union if bits <= 64 => Some(Self::Hex),
            _ => None,
        }
    }

    /// The text of a word. The type decides which bits count.
    fn print(self, word: u64) -> String {
        match self {
            Self::Hex => format!("{word:#x}"),
            Self::Unsigned(bits) => (word << (64 - bits) >> (64 - bits)).to_string(),
            Self::Signed(bits) => ((word << (64 - bits)) as i64 >> (64 - bits)).to_string(),
        }
    }
}

/// A parameter in a register.
#[derive(Debug)]
struct Parameter {
    name: String,
    form: Form,
    /// The field with the address of a string.
    address: Option<String>,
}

/// The types of a function.
#[derive(Debug, Default)]
struct Signature {
    values: Values,
    /// The first parameters. `None` if they are unknown.
    params: Option<Vec<Parameter>>,
    returned: Option<Form>,
}

impl Signature {
    fn of(btf: &Btf<'_>, name: &str) -> Self {
        let Some(function) = btf.function(name) else {
            return Self::default();
        };
        let own = function.btf();
        let values = Values::find(btf, name, RESULT, More::default()).unwrap_or_default();
        // The registers of the parameters after a value of several words are unknown.
        let parameter = |param: Param<'_>| {
            let name = match param.name {
                "" => format!("arg{}", param.position + 1),
                name => name.into(),
            };
            Some(Parameter {
                form: Form::of(own, param.ty)?,
                address: values.address_name(&name),
                name,
            })
        };
        let params = function.params().map_while(parameter).take(WORDS).collect();
        Self {
            params: Some(params),
            returned: Form::of(own, function.returned()),
            values,
        }
    }

    /// The fields of a record that has the words.
    fn fields(&self, step: &Step) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        for (param, word) in self.params.iter().flatten().zip(step.args) {
            let text = param.form.print(word);
            // With an address, a string would be one that could not be read.
            if let Some(address) = param.address.as_ref().filter(|_| word == 0) {
                fields.push((address.clone(), text.clone()));
            }
            fields.push((param.name.clone(), text));
        }
        if let (Some(form), Some(word)) = (self.returned, step.ret) {
            fields.push((RESULT.into(), form.print(word)));
        }
        fields
    }

    fn with_record<R>(&self, step: &Step, f: impl FnOnce(&Record<'_>) -> R) -> R {
        let fields = self.fields(step);
        f(&record_of(&fields))
    }
}

/// A record with these fields.
pub fn record_of(fields: &[(String, String)]) -> Record<'_> {
    let fields = fields.iter();
    Record {
        comm: "",
        pid: "",
        cpu: 0,
        time: 0,
        place: "",
        fields: fields.map(|(name, value)| (&**name, &**value)).collect(),
        stack: Vec::new(),
        user_stack: Vec::new(),
    }
}

/// The types of functions. The answers of BTF are kept.
#[derive(Default)]
pub struct Signatures {
    known: HashMap<String, Signature>,
    /// What the functions return.
    pub returns: Returns,
}

impl Signatures {
    /// Looks up functions, `NAME` or `NAME [MODULE]`.
    pub fn look_up<'s>(&mut self, symbols: impl Iterator<Item = &'s str>) {
        let Self { known, returns } = self;
        returns.look_up_with(symbols, |symbol, name, btf| {
            let signature = btf.map(|btf| Signature::of(btf, name));
            known.insert(symbol.into(), signature.unwrap_or_default());
        });
    }

    /// The arguments of a step, as in a call in C.
    pub fn arguments(&self, step: &Step) -> String {
        match self.known.get(&step.function) {
            Some(signature) if signature.params.is_some() => {
                signature.with_record(step, |record| signature.values.show(record, &[RESULT]))
            }
            _ => "...".into(),
        }
    }

    /// The same as JSON. `None` if the types are unknown.
    pub fn arguments_json(&self, step: &Step) -> Option<Members> {
        let signature = self.known.get(&step.function)?;
        signature.params.as_ref()?;
        Some(signature.with_record(step, |record| signature.values.json(record, &[RESULT])))
    }

    /// The return value of a step. `None` if there is none.
    pub fn result(&self, step: &Step) -> Option<String> {
        let word = step.ret?;
        if self.returns.of(&step.function) == Returned::Nothing {
            return None;
        }
        if let Some(number) = cause::error(step, &self.returns) {
            return Some(format!("-{}", errno::name(number.into())));
        }
        let signature = self.known.get(&step.function);
        let known = signature.filter(|signature| signature.returned.is_some());
        Some(match known {
            Some(signature) => signature
                .with_record(step, |record| signature.values.show_result(record, RESULT))
                .unwrap_or_default(),
            None => format!("{word:#x}"),
        })
    }

    /// The return value as JSON. Numbers are numbers, and addresses are strings.
    pub fn result_json(&self, step: &Step) -> Option<Json> {
        let word = step.ret?;
        if self.returns.of(&step.function) == Returned::Nothing {
            return None;
        }
        let returned = self.known.get(&step.function).and_then(|of| of.returned);
        let text = returned.unwrap_or(Form::Hex).print(word);
        Some(crate::literal::plain_json(&text))
    }
}

#[cfg(test)]
mod tests {
    use crate::btf::{
        self,
        builder::{
            Builder,
            BOOL,
            SIGNED, //
        }, //
    };

    use super::*;

    fn signatures() -> Signatures {
        let mut types = Builder::new();
        let int = types.int("int", 4, SIGNED);
        let char = types.int("char", 1, 0);
        let bool = types.int("bool", 1, BOOL);
        let wide = types.int("__int128", 16, 0);
        let constant = types.refer(10, "", char);
        let text = types.ptr(constant);
        let buffer = types.ptr(char);
        types.function(
            "f",
            &[("name", text), ("at", buffer), ("n", int), ("on", bool)],
            int,
        );
        types.function("g", &[("n", int), ("wide", wide), ("m", int)], buffer);
        types.function("h", &[], TypeId::VOID);
        let bytes = types.bytes();
        let mut index = Vec::new();
        let btf = btf::parse(&bytes, None, &mut index).unwrap();
        let known = ["f", "g", "h"].map(|name| (name.into(), Signature::of(&btf, name)));
        Signatures {
            known: known.into(),
            returns: Returns::of_functions(&[
                ("f", Returned::Int),
                ("g", Returned::Pointer),
                ("h", Returned::Nothing),
            ]),
        }
    }

    fn step(function: &str, args: [u64; WORDS], ret: u64) -> Step {
        Step {
            function: function.into(),
            args,
            ret: Some(ret),
            ..Step::default()
        }
    }

    #[test]
    fn types_decide_how_words_are_shown() {
        let signatures = signatures();
        let high = 0xffff_0000_0000_0000;
        for (step, arguments, result) in [
            (
                step("f", [0x7f00, 0, high | 0xffff_ffff, high | 1], high | 5),
                "name=0x7f00, at=NULL, n=-1, on=true",
                Some("5"),
            ),
            (
                step("f", [0, u64::MAX - 1, 3, 0], high | 0xffff_fffe),
                "name=NULL, at=-ENOENT, n=3, on=false",
                Some("-ENOENT"),
            ),
            (step("g", [7, 8, 9, 10], 0), "n=7", Some("NULL")),
            (step("g", [7, 8, 9, 10], u64::MAX), "n=7", Some("-EPERM")),
            (step("h", [1, 2, 3, 4], 5), "", None),
            (step("unknown", [1, 2, 3, 4], 5), "...", Some("0x5")),
        ] {
            assert_eq!(signatures.arguments(&step), arguments);
            assert_eq!(signatures.result(&step).as_deref(), result);
        }
        let mut step = step("f", [0x7f00, 0, 5, 0], 9);
        let json = |step: &Step| serde_json::to_string(&signatures.arguments_json(step)).unwrap();
        assert_eq!(
            json(&step),
            "{\"name\":\"0x7f00\",\"at\":\"0x0\",\"n\":5,\"on\":false}"
        );
        assert_eq!(signatures.result_json(&step), Some(9.into()));
        step.ret = None;
        assert_eq!(signatures.result(&step), None);
        step.function = "unknown".into();
        assert_eq!(json(&step), "null");
    }
}
