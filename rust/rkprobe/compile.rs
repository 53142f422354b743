// SPDX-License-Identifier: GPL-2.0

//! Compiles the arguments of a command into programs.
//!
//! Programs contain addresses of symbols. So rkprobe compiles the programs of a registered probe
//! again when a module that they depend on loads or unloads.
//!
//! C: `traceprobe_update_arg()` in `kernel/trace/trace_probe.c`.

use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};

use ktrace::{
    module::Module,
    symbol,
    trace_event::prepare_callers, //
};
use probe::{
    arch,
    argument::{
        Argument,
        Base, //
    },
    command::{
        split_symbol,
        Command,
        ParseContext,
        ProbeKind,
        ProbeSpec,
        SpecText,
        WrittenArgument, //
    },
    condition::Comparison,
    error::{
        Errno,
        ErrorKind, //
    },
    fetch::{
        self,
        EntryArgument,
        Layout,
        Program,
        TooBig, //
    },
};

use crate::{
    action::{
        Action,
        Purpose, //
    },
    collect::collect,
    condition::{
        Conditions,
        SharedBuffer,
        WrittenCondition, //
    },
    counting::{
        CountPrograms,
        KeysAndValues,
        WrittenBy, //
    },
    entry_saver::EntryLayout,
    failure::{
        at_target,
        to_kernel,
        Failure, //
    },
    resolve::{
        with_types,
        ResolvedTarget,
        Source,
        Types, //
    },
    symbols, //
};

/// The clauses after the arguments of a command, as the user wrote them.
pub(crate) struct Clauses<'a> {
    by: WrittenBy<'a>,
    condition: WrittenCondition<'a>,
}

impl<'a> Clauses<'a> {
    /// Parses the clauses of a command. `ENOMEM`, and the errors of the clauses.
    #[inline(never)]
    fn parse(command: &Command<'a>) -> Result<KBox<Self>, Failure> {
        let clauses = Self {
            by: WrittenBy::parse(command)?,
            condition: WrittenCondition::parse(command)?,
        };
        Ok(KBox::new(clauses, GFP_KERNEL)?)
    }
}

/// Parses the arguments and the clauses of a command, finds their types at its target, and calls
/// `f` with them.
///
/// Process context. Sleeps, and can read files. Fails with `ENOMEM`, and with the errors of the
/// clauses and of `f`.
pub(crate) fn with_written<R>(
    command: &Command<'_>,
    target: &ResolvedTarget<'_>,
    f: impl FnOnce(&[WrittenArgument<'_>], &Clauses<'_>, &Types<'_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let written = parse_arguments(command)?;
    let clauses = Clauses::parse(command)?;
    let Clauses { by, condition } = &*clauses;
    let operands = [&written, &by.keys, &by.fields, &condition.operands];
    with_types(&operands.map(|list| list.as_slice()), target, |types| {
        f(&written, &clauses, types)
    })
}

/// Parses the arguments of a command. Fails with `ENOMEM`: an error in an argument is a part of it.
// The caller's frame stays while the arguments are resolved, so it must not contain this one.
#[inline(never)]
fn parse_arguments<'c>(command: &Command<'c>) -> Result<KVVec<WrittenArgument<'c>>> {
    collect(command.arguments())
}

/// Resolves the arguments of a command, after those that its kind has of its own.
// The kernel's stack is small, so large frames must not add up in one function.
#[inline(never)]
fn resolve_arguments<'c>(
    command: &Command<'_>,
    written: &'c [WrittenArgument<'c>],
    context: ParseContext<'c>,
) -> Result<KVVec<Argument<'c>>, Failure> {
    let own = command.own_arguments();
    let mut resolved = KVVec::new();
    resolved.extend_from_slice(own, GFP_KERNEL)?;
    let arguments = command.resolve(written, context, arch::current::register)?;
    for (argument, written) in arguments.zip(written) {
        let argument = argument?;
        if own.iter().any(|own| own.name.is_same(argument.name)) {
            return Err(written.error(ErrorKind::UsedArgName, Errno::EINVAL).into());
        }
        resolved.push(argument, GFP_KERNEL)?;
    }
    Ok(resolved)
}

/// The arguments and the clauses of a command, resolved.
pub(crate) struct Resolved<'a> {
    pub(crate) arguments: KVVec<Argument<'a>>,
    /// `None` if the command makes records.
    pub(crate) counted: Option<KeysAndValues<'a>>,
    pub(crate) comparisons: KVVec<Comparison<'a>>,
}

impl<'a> Resolved<'a> {
    /// Resolves the arguments `written` and the clauses of a command.
    pub(crate) fn new(
        command: &'a Command<'a>,
        written: &'a [WrittenArgument<'a>],
        clauses: &'a Clauses<'a>,
        context: ParseContext<'a>,
    ) -> Result<Self, Failure> {
        let Clauses { by, condition } = clauses;
        Ok(Self {
            arguments: resolve_arguments(command, written, context)?,
            counted: by.resolve(command, written, context)?,
            comparisons: condition.resolve(command, written, context)?,
        })
    }

    /// Resolves what a purpose has a use for. `None` if these are no arguments, keys and values for
    /// the purpose.
    #[inline(never)]
    pub(crate) fn for_purpose(
        command: &'a Command<'a>,
        written: &'a [WrittenArgument<'a>],
        clauses: &'a Clauses<'a>,
        context: ParseContext<'a>,
        purpose: &Purpose,
    ) -> Result<Option<Self>, Failure> {
        let mut this = Self::new(command, written, clauses, context)?;
        this.arguments.retain(|argument| purpose.uses(argument));
        if let Purpose::Feed(..) = purpose {
            this.counted = None;
        }
        match purpose.accepts(&this.arguments, this.counted.as_ref()) {
            true => Ok(Some(this)),
            false => Ok(None),
        }
    }

    /// The entry data that the probe needs. `ENOMEM`.
    pub(crate) fn entry_layout(&self) -> Result<EntryLayout> {
        EntryLayout::of(self.values())
    }

    /// The arguments, the keys and values, and the operands of the condition.
    fn values(&self) -> impl Iterator<Item = &Argument<'a>> {
        let operands = self
            .comparisons
            .iter()
            .map(|comparison| &comparison.operand);
        let counted = self.counted.iter().flat_map(KeysAndValues::arguments);
        let clauses = Iterator::chain(counted, operands);
        Iterator::chain(self.arguments.iter(), clauses)
    }
}

/// The compiled arguments and the compiled clauses of a command.
pub(crate) struct Compiled {
    programs: KVec<Program>,
    counted: Option<Arc<CountPrograms>>,
    conditions: Option<Arc<Conditions>>,
    /// The strings whose addresses the programs contain.
    texts: Option<Arc<KVec<CString>>>,
    entry: EntryLayout,
    needs: Needs,
}

/// The modules that programs depend on.
#[derive(Default)]
struct Needs {
    /// Names of the modules.
    modules: KVec<CString>,
    /// Whether a symbol or type is in no loaded module. Any module that loads later can contain it.
    is_open: bool,
}

impl Needs {
    fn add(&mut self, module: CString) -> Result {
        Ok(self.modules.push(module, GFP_KERNEL)?)
    }
}

impl Compiled {
    /// Compiles the arguments and the clauses of a command of this kind. `source` is the source
    /// of their types. `strings` gives the buffer for the condition. Fails if a symbol is in the
    /// module `going`, which the kernel is unloading.
    ///
    /// Process context. Sleeps, and can read files.
    #[inline(never)]
    pub(crate) fn new(
        kind: ProbeKind,
        resolved: &Resolved<'_>,
        source: Source<'_>,
        strings: SharedBuffer,
        going: Option<&Module>,
    ) -> Result<Self, Failure> {
        let mut resolver = KernelResolver {
            texts: KVec::new(),
            entry: resolved.entry_layout()?,
            needs: Needs::default(),
            going,
        };
        if resolved.values().any(Argument::reads_caller) {
            prepare_callers();
        }
        match source {
            Source::Kernel => {}
            Source::Module(module) => resolver.needs.add(module.try_into()?)?,
            Source::Unknown => resolver.needs.is_open = true,
        }
        let arguments = &resolved.arguments;
        let mut programs = KVec::with_capacity(arguments.len(), GFP_KERNEL)?;
        let mut layout = Layout::new();
        for argument in arguments {
            if argument.fetch.base == Base::OfStep {
                layout.add(argument).map_err(|TooBig| E2BIG)?;
                continue;
            }
            if let Some(gap) = Program::gap_before(argument, layout) {
                add_program(&mut programs, gap)?;
            }
            layout.add(argument).map_err(|TooBig| E2BIG)?;
            add_program(&mut programs, fetch::compile(argument, &mut resolver)?)?;
        }
        let counted = match &resolved.counted {
            Some(counted) => Some(Arc::new(counted.compile(&mut resolver)?, GFP_KERNEL)?),
            None => None,
        };
        let conditions = match resolved.comparisons.as_slice() {
            [] => None,
            comparisons => {
                let new = Conditions::new(comparisons, kind, &mut resolver, strings)?;
                Some(Arc::new(new, GFP_KERNEL)?)
            }
        };
        Ok(Self {
            programs,
            counted,
            conditions,
            texts: match resolver.texts.is_empty() {
                true => None,
                false => Some(Arc::new(resolver.texts, GFP_KERNEL)?),
            },
            entry: resolver.entry,
            needs: resolver.needs,
        })
    }

    /// Compiles the command of an accepted probe with the current addresses of symbols. `target`
    /// is its target, resolved again. Fails with `EINVAL` if they are no longer arguments for this
    /// purpose.
    ///
    /// Process context. Sleeps, and can read files.
    #[inline(never)]
    pub(crate) fn again<T: SpecText>(
        probe: &ProbeSpec<T>,
        target: &ResolvedTarget<'_>,
        purpose: &Purpose,
        strings: SharedBuffer,
        going: Option<&Module>,
    ) -> Result<Self, Failure> {
        let command = probe.command();
        with_written(&command, target, |written, clauses, types| {
            let resolve = |context| resolve_again(&command, written, clauses, context, purpose);
            let resolved = match resolve(types.context)? {
                Some(resolved) => resolved,
                // rkprobe accepted the command without the module, and so without the module's BTF.
                // So this code does not use that BTF either.
                None => resolve(types.without_module())?.ok_or(EINVAL)?,
            };
            Self::new(command.kind, &resolved, types.source, strings, going)
        })
    }

    /// Whether the programs depend on the symbols or the types of this module.
    fn needs(&self, module: &Module) -> bool {
        let mut names = self.needs.modules.iter();
        names.any(|name| name.to_bytes() == &**module.name())
    }

    /// Whether any module that loads can change the programs.
    fn is_open(&self) -> bool {
        self.needs.is_open
    }

    /// Creates the handler of one registration, and the layout of its entry data. Fails with
    /// `ENOMEM`.
    pub(crate) fn action(&self, purpose: &Purpose) -> Result<(Action, EntryLayout)> {
        let mut programs = KVec::new();
        programs.extend_from_slice(&self.programs, GFP_KERNEL)?;
        let (counted, conditions) = (self.counted.as_ref(), self.conditions.as_ref());
        let action = Action::new(purpose, programs, counted, conditions, self.texts.clone())?;
        Ok((action, self.entry.try_clone()?))
    }
}

/// The programs of a probe that is registered more than once.
pub(crate) struct Programs {
    pub(crate) purpose: Purpose,
    /// Whether the probe is registered each time that its event is enabled, and not each time that
    /// its module is loaded.
    pub(crate) is_with_event: bool,
    /// For the next registration. A kprobe has none until its module is loaded.
    pub(crate) compiled: Option<Result<Compiled>>,
}

impl Programs {
    /// Whether the programs must be compiled again before `module`, which is being loaded, runs. A
    /// kprobe in the module always has new ones.
    pub(crate) fn needs_coming(&self, module: &Module) -> bool {
        let may_change = match &self.compiled {
            Some(Ok(compiled)) => compiled.needs(module) || compiled.is_open(),
            Some(Err(_)) => true,
            None => false,
        };
        self.is_with_event && may_change
    }

    /// Whether the programs must be compiled again without `module`, which is being unloaded.
    pub(crate) fn needs_going(&self, module: &Module) -> bool {
        let needs_module = match &self.compiled {
            Some(Ok(compiled)) => compiled.needs(module),
            Some(Err(_)) | None => false,
        };
        needs_module && self.is_with_event
    }
}

/// Adds a program. Joins it with the last program if possible.
fn add_program(programs: &mut KVec<Program>, program: Program) -> Result {
    let rest = match programs.last_mut() {
        Some(last) => last.join(program),
        None => Some(program),
    };
    if let Some(program) = rest {
        programs.push(program, GFP_KERNEL)?;
    }
    Ok(())
}

/// Resolves an accepted command. Returns `None` if it now has an error, or if its arguments are no
/// longer arguments for this purpose.
fn resolve_again<'c>(
    command: &'c Command<'c>,
    written: &'c [WrittenArgument<'c>],
    clauses: &'c Clauses<'c>,
    context: ParseContext<'c>,
    purpose: &Purpose,
) -> Result<Option<Resolved<'c>>, Failure> {
    match Resolved::for_purpose(command, written, clauses, context, purpose) {
        Err(Failure::Command(_)) => Ok(None),
        resolved => resolved,
    }
}

/// Finds the kernel addresses of symbols and strings for programs.
struct KernelResolver<'a> {
    /// The strings whose addresses the programs contain.
    texts: KVec<CString>,
    entry: EntryLayout,
    needs: Needs,
    /// The module that the kernel is about to free. The resolver does not find its symbols.
    going: Option<&'a Module>,
}

impl fetch::Resolver for KernelResolver<'_> {
    type Error = Failure;

    fn symbol(&mut self, name: &str) -> Result<u64, Failure> {
        let (symbol, offset) = split_symbol(name).map_err(|errno| at_target(to_kernel(errno)))?;
        let address = symbols::address_of(symbol).map_err(at_target)?;
        let mut buffer = [0; symbol::LEN];
        match symbol::location(address, &mut buffer) {
            Some(location) => {
                if let Some(module) = location.module {
                    let is_it = |going: &&Module| module.as_bytes() == &**going.name();
                    if self.going.as_ref().is_some_and(is_it) {
                        return Err(at_target(ENOENT));
                    }
                    let module = CString::try_from_fmt(format_args!("{module}"))?;
                    self.needs.add(module)?;
                }
            }
            // The address may be per-CPU data of a module.
            None => self.needs.is_open = true,
        }
        Ok((address as u64).wrapping_add_signed(offset))
    }

    fn text(&mut self, text: &str) -> Result<u64, Failure> {
        let text = CString::try_from_fmt(format_args!("{text}"))?;
        // The string does not move when the list grows, because the list contains pointers.
        let address = text.as_char_ptr().addr() as u64;
        self.texts.push(text, GFP_KERNEL)?;
        Ok(address)
    }

    fn entry_index(&mut self, argument: EntryArgument) -> Result<u8, Failure> {
        let mut saved = self.entry.arguments.iter();
        // `entry` contains the entry data of all arguments, including this one.
        let index = saved.position(|saved| *saved == argument).ok_or(EINVAL)?;
        Ok(u8::try_from(index).map_err(|_| E2BIG)?)
    }
}
