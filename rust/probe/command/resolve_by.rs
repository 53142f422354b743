// SPDX-License-Identifier: GPL-2.0

//! Resolves the keys and the fields of a command: finds their values, and checks the modifiers.
//!
//! C: `create_key_field()` and `create_val_field()` in `kernel/trace/trace_events_hist.c`.

use crate::{
    argument::{
        Argument,
        Name, //
    },
    count_value::{
        Operation,
        Value, //
    },
    counting::{
        Key,
        KeySource,
        Modifier, //
    },
    error::ErrorKind,
    types::FetchType, //
};

use super::{
    arguments::{
        WrittenArgument,
        COMMON_PID, //
    },
    by::Item,
    error::Error,
    resolve_base::BaseResolver,
    resolve_condition::{
        own_argument,
        resolve_operand, //
    },
    target::{
        ProbeKind,
        Target, //
    },
};

/// Resolves the keys and the fields of a command.
pub(super) struct ByResolver<'a> {
    pub(super) kind: ProbeKind,
    pub(super) target: Target<'a>,
    /// The arguments of the command. A key or a field can be the name of one.
    pub(super) arguments: &'a [WrittenArgument<'a>],
    pub(super) bases: BaseResolver<'a>,
}

impl<'a> ByResolver<'a> {
    /// Resolves a key. `operand` is its value.
    pub(super) fn key(
        &self,
        item: &Item<'a>,
        operand: &'a WrittenArgument<'a>,
    ) -> Result<Key<'a>, Error> {
        if let Some((value, suffix)) = item.text.rsplit_once('.') {
            if self.is_argument(value) || self.own_source(value).is_some() {
                let offset = item.text.len().saturating_sub(suffix.len());
                return Err(item.error_at(ErrorKind::BadModifier, offset));
            }
        }
        let own = self
            .own_source(item.text)
            .filter(|_| !self.is_argument(item.text));
        let source = match own {
            Some(source) => source,
            None => KeySource::Argument(self.argument(operand)?),
        };
        // The address of a function is shown with its name, and that of a block with its offset.
        let modifier = match (&source, item.modifier) {
            (KeySource::Function, Modifier::None) => match self.kind {
                ProbeKind::Blocks { .. } => Modifier::SymOffset,
                _ => Modifier::Sym,
            },
            (_, modifier) => modifier,
        };
        let key = Key {
            name: item.text,
            source,
            modifier,
        };
        match key.fits() {
            true => Ok(key),
            false => Err(item.modifier_error(ErrorKind::ModifierType)),
        }
    }

    /// Resolves a field. `operand` is its value. Its name in the table is the text of the field.
    pub(super) fn value(
        &self,
        operation: Operation,
        item: &Item<'a>,
        operand: &'a WrittenArgument<'a>,
    ) -> Result<Value<'a>, Error> {
        let mut argument = self.argument(operand)?;
        argument.name = Name::Given(item.text);
        match argument.ty {
            FetchType::Number(..) | FetchType::Bitfield(..) => Ok(Value {
                operation,
                argument,
            }),
            FetchType::String(_) | FetchType::Symstr => Err(item.error(ErrorKind::ValueOfString)),
        }
    }

    #[inline(never)]
    fn argument(&self, operand: &'a WrittenArgument<'a>) -> Result<Argument<'a>, Error> {
        let (argument, _) = resolve_operand(
            (self.kind, self.target, self.arguments, &self.bases),
            operand,
            ErrorKind::ArrayKey,
            |_| Some(()),
        )?;
        Ok(argument)
    }

    /// Whether the event has an argument with this name.
    fn is_argument(&self, name: &str) -> bool {
        let name = Name::Given(name);
        own_argument(self.kind, self.target, name).is_some()
            || self
                .arguments
                .iter()
                .any(|argument| argument.name().is_same(name))
    }

    /// The source of a key with a name of its own. The record of an event has no address and no
    /// registers.
    fn own_source(&self, name: &str) -> Option<KeySource<'static>> {
        match name {
            COMMON_PID => Some(KeySource::Pid),
            _ if self.kind == ProbeKind::EventProbe => None,
            "func" => Some(KeySource::Function),
            "stack" => Some(KeySource::Stack),
            _ => None,
        }
    }
}
