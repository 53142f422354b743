// SPDX-License-Identifier: GPL-2.0

//! Changes of probes when a module is loaded or unloaded.

use kernel::{
    prelude::*,
    sync::atomic::Relaxed, //
};

use ktrace::module::Module;

use crate::{
    action::Purpose,
    compile::{
        Compiled,
        Programs, //
    },
    hook::symbol_in,
    kinds,
    registered::UnregisterBatch,
    spec::{
        self,
        Spec, //
    },
};

use super::REGISTRY;

/// Registers the probes in `module`, which is being loaded.
///
/// Process context; reads files.
pub(crate) fn module_coming(module: &Module) {
    // This reads files, so no lock may be held that is taken under `event_mutex`.
    compile_again(None, |spec, programs| {
        symbol_in(spec, module).is_some() || programs.needs_coming(module)
    });
    let mut registry = REGISTRY.lock();
    let probes = registry.probes.iter();
    let count = probes
        .filter(|probe| probe.hook().symbol_in(module).is_some())
        .count();
    if count == 0 {
        return;
    }
    // Without memory, each probe is unregistered by itself.
    let mut gone = UnregisterBatch::new(count).unwrap_or_default();
    for probe in &mut registry.probes {
        if probe.hook().symbol_in(module).is_some() {
            if let Some(registered) = probe.hook_mut().take_gone() {
                registered.unregister_in(&mut gone);
            }
        }
    }
    gone.unregister();
    for probe in &mut registry.probes {
        let Some(symbol) = probe.hook().symbol_in(module) else {
            continue;
        };
        let count = module.count_symbols(symbol);
        let is_enabled = probe.records().state.is_enabled.load(Relaxed);
        // After a failure, the probe waits until the module is loaded again.
        if let Err(error) = probe.hook_mut().register_in_module(count, is_enabled) {
            let spec = probe.spec();
            pr_warn!(
                "{} cannot be probed for {}/{}: {error:?}\n",
                spec.target_text(),
                spec.group(),
                spec.event()
            );
        }
    }
}

/// Disarms the probes in `module`, which is being unloaded.
pub(crate) fn module_leaving(module: &Module) {
    for probe in &REGISTRY.lock().probes {
        probe.hook().disarm_in(module);
    }
}

/// Compiles the probes again that depend on `module`, which is being freed.
///
/// Process context; reads files.
pub(crate) fn module_going(module: &Module) {
    compile_again(Some(module), |_, programs| programs.needs_going(module));
}

/// Compiles programs of probes again. Does not hold `REGISTRY` meanwhile.
fn compile_again(going: Option<&Module>, is_meant: impl Fn(&Spec, &Programs) -> bool) {
    let compile = |spec: Result<Spec>, purpose: &Purpose| {
        let spec = spec?;
        let command = spec.command();
        let target = kinds::with(command.target, |kind| kind.resolve_again(&command))?;
        let strings = super::string_buffer;
        let compiled = Compiled::again(&spec, &target, purpose, strings, going);
        compiled.map_err(|failure| failure.errno())
    };
    let mut from = (0, 0);
    while let Some((at, spec, purpose)) = find_programs(from, &is_meant) {
        let compiled = compile(spec, &purpose);
        with_programs(at, |programs| programs.compiled = Some(compiled));
        from = (at.0, at.1.wrapping_add(1));
    }
}

/// The number of a probe, and the index of programs of it.
type At = (usize, usize);

/// Finds the first of the programs from `from` on that are meant. Returns the command, `ENOMEM` if
/// it cannot be copied, and the purpose.
fn find_programs(
    from: At,
    is_meant: &impl Fn(&Spec, &Programs) -> bool,
) -> Option<(At, Result<Spec>, Purpose)> {
    let mut registry = REGISTRY.lock();
    registry
        .probes_from_mut(from.0)
        .iter_mut()
        .find_map(|probe| {
            let mut at = (probe.number(), 0);
            let mut found = None;
            probe.hook_mut().each_programs(&mut |spec, programs| {
                if found.is_none() && at >= from && is_meant(spec, programs) {
                    found = Some((at, spec::try_clone(spec), programs.purpose.clone()));
                }
                at.1 += 1;
            });
            found
        })
}

/// Calls `f` with these programs, unless the probe was removed.
fn with_programs(at: At, f: impl FnOnce(&mut Programs)) {
    let mut registry = REGISTRY.lock();
    let Some(probe) = registry.probe_mut(at.0) else {
        return;
    };
    let (mut index, mut f) = (0, Some(f));
    probe.hook_mut().each_programs(&mut |_, programs| {
        if index == at.1 {
            if let Some(f) = f.take() {
                f(programs);
            }
        }
        index += 1;
    });
}
