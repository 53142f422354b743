// SPDX-License-Identifier: GPL-2.0

//! Compile the arguments of a command into programs.
//!
//! Programs contain addresses of symbols. So rkprobe compiles the programs of a probe that is
//! registered again when a module that they depend on is loaded or unloaded.
//!
//! C: `traceprobe_update_arg()` in `kernel/trace/trace_probe.c`.

use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};

use ktrace::{
    module::Module,
    symbol, //
};
use probe::{
    arch,
    argument::{
        Argument,
        Base, //
    },
    command::{
        self,
        split_symbol,
        Command,
        ParseContext,
        ProbeSpec,
        Target,
        TypeInfo, //
    },
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
    entry_saver::EntryLayout,
    failure::{
        at_target,
        to_kernel,
        Failure, //
    },
    recorder::{
        Recorder,
        Records, //
    },
    resolve::{
        ResolvedTarget,
        Source,
        Types, //
    },
    schema::Schema,
    symbols, //
};

/// The fields that a record of an object probe begins with.
const RECEIVED_OBJECT: &str = "object=$obj parameter=$parameter:u8";
/// The same with the option `changes`.
const CHANGED_OBJECT: &str = "object=$obj parameter=$parameter:u8 unchanged=$unchanged:symbol";

/// Reads the arguments of a command.
pub(crate) fn read_arguments<'c>(
    command: &Command<'c>,
    context: ParseContext<'c>,
) -> Result<KVVec<Argument<'c>>, Failure> {
    let mut read = KVVec::new();
    let (received, has_unchanged) = match command.target {
        Target::Object(target) if target.changes.is_some() => (CHANGED_OBJECT, true),
        Target::Object(_) => (RECEIVED_OBJECT, false),
        _ => ("", false),
    };
    let received = command.with_arguments(received);
    for argument in received.arguments(context, arch::current::register)? {
        read.push(argument?, GFP_KERNEL)?;
    }
    let fields = read.len();
    for (index, argument) in command
        .arguments(context, arch::current::register)?
        .enumerate()
    {
        let argument = argument?;
        if argument.fetch.base == Base::Unchanged && !has_unchanged {
            let kind = ErrorKind::UnchangedOnAll;
            return Err(command::Error::at_argument(index, kind, Errno::EINVAL).into());
        }
        if read
            .iter()
            .take(fields)
            .any(|field| field.name.is_same(argument.name))
        {
            let kind = ErrorKind::UsedArgName;
            return Err(command::Error::at_argument(index, kind, Errno::EINVAL).into());
        }
        read.push(argument, GFP_KERNEL)?;
    }
    Ok(read)
}

/// The compiled arguments of a command.
pub(crate) struct Compiled {
    programs: KVec<Program>,
    /// Strings whose addresses are in the programs.
    texts: Option<Arc<KVec<CString>>>,
    entry: EntryLayout,
    needs: Needs,
}

/// The modules that programs depend on.
#[derive(Default)]
struct Needs {
    /// Names of the modules.
    modules: KVec<CString>,
    /// Whether something was in no loaded module. Any module that is loaded may have it.
    is_open: bool,
}

impl Needs {
    fn add(&mut self, module: CString) -> Result {
        Ok(self.modules.push(module, GFP_KERNEL)?)
    }
}

impl Compiled {
    /// Compiles arguments whose types come from `source`. Fails if a symbol is in the module
    /// `going`, which is being unloaded.
    ///
    /// Process context; sleeps, and may read files.
    #[inline(never)]
    pub(crate) fn new(
        arguments: &[Argument<'_>],
        source: Source<'_>,
        going: Option<&Module>,
    ) -> Result<Self, Failure> {
        let mut resolver = KernelResolver {
            texts: KVec::new(),
            entry: EntryLayout::default(),
            needs: Needs::default(),
            going,
        };
        match source {
            Source::Kernel => {}
            Source::Module(module) => resolver.needs.add(module.try_into()?)?,
            Source::Unknown => resolver.needs.is_open = true,
        }
        let mut programs = KVec::with_capacity(arguments.len(), GFP_KERNEL)?;
        let mut layout = Layout::new();
        for argument in arguments {
            if let Some(gap) = Program::gap_before(argument, layout) {
                add_program(&mut programs, gap)?;
            }
            layout.add(argument).map_err(|TooBig| E2BIG)?;
            resolver.entry.is_timed |= argument.fetch.base == Base::Elapsed;
            add_program(&mut programs, fetch::compile(argument, &mut resolver)?)?;
        }
        Ok(Self {
            programs,
            texts: match resolver.texts.is_empty() {
                true => None,
                false => Some(Arc::new(resolver.texts, GFP_KERNEL)?),
            },
            entry: resolver.entry,
            needs: resolver.needs,
        })
    }

    /// Compiles the arguments of an accepted probe with the current addresses of symbols. Fails
    /// with `EINVAL` if the fields differ from those of the event: a module that is loaded again
    /// can have other types.
    ///
    /// Process context; sleeps, and may read files.
    #[inline(never)]
    pub(crate) fn again<T: AsRef<str>>(
        probe: &ProbeSpec<T>,
        schema: &Schema,
        going: Option<&Module>,
    ) -> Result<Self, Failure> {
        let command = probe.command();
        let target = ResolvedTarget::again(&command)?;
        let types = Types::of(&command, &target)?;
        let kernel = types.kernel()?;
        let modules = types.modules(kernel.as_ref())?;
        let mut context = types.parse_context(kernel.as_ref(), &modules)?;
        let arguments = match read_again(&command, context, schema)? {
            Some(arguments) => arguments,
            None => {
                // The command was accepted without the module, and so without its BTF. The BTF is
                // not used now either.
                context.types = kernel.map_or(TypeInfo::Unsupported, TypeInfo::Unknown);
                read_again(&command, context, schema)?.ok_or(EINVAL)?
            }
        };
        Self::new(&arguments, types.source(), going)
    }

    /// Whether the programs depend on the symbols or the types of this module.
    pub(crate) fn needs(&self, module: &Module) -> bool {
        let mut names = self.needs.modules.iter();
        names.any(|name| name.to_bytes() == &**module.name())
    }

    /// Whether any module that is loaded can change the programs.
    pub(crate) fn is_open(&self) -> bool {
        self.needs.is_open
    }

    /// Creates the handler of one registration, and the layout of its entry data. `ENOMEM`.
    pub(crate) fn recorder(&self, records: &Arc<Records>) -> Result<(Recorder, EntryLayout)> {
        let mut programs = KVec::new();
        programs.extend_from_slice(&self.programs, GFP_KERNEL)?;
        let recorder = Recorder::new(records.clone(), programs, self.texts.clone())?;
        Ok((recorder, self.entry.try_clone()?))
    }
}

/// Adds a program, as a part of the last one if possible.
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

/// Reads the arguments of an accepted command. Returns `None` if they have an error now, or if
/// their fields differ from those of the event.
fn read_again<'c>(
    command: &Command<'c>,
    context: ParseContext<'c>,
    schema: &Schema,
) -> Result<Option<KVVec<Argument<'c>>>, Failure> {
    let arguments = match read_arguments(command, context) {
        Err(Failure::Command(_)) => return Ok(None),
        arguments => arguments?,
    };
    let mut layout = Layout::new();
    let mut both = arguments.iter().zip(schema.fields());
    let is_same = both.all(|(argument, (_, field))| layout.add(argument) == Ok(field));
    Ok(is_same.then_some(arguments))
}

/// Resolves the symbols and strings of programs to the kernel's addresses.
struct KernelResolver<'a> {
    /// Strings whose addresses are in the programs.
    texts: KVec<CString>,
    entry: EntryLayout,
    needs: Needs,
    /// The module that is about to be freed. Its symbols are not found.
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
            // This may be per-CPU data of a module.
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
        let arguments = &mut self.entry.arguments;
        let index = match arguments.iter().position(|saved| *saved == argument) {
            Some(index) => index,
            None => {
                arguments.push(argument, GFP_KERNEL)?;
                arguments.len() - 1
            }
        };
        Ok(u8::try_from(index).map_err(|_| E2BIG)?)
    }
}
