// SPDX-License-Identifier: GPL-2.0

//! Changes of probes when a module is loaded or unloaded.

use kernel::{
    prelude::*,
    sync::atomic::Relaxed, //
};

use ktrace::module::Module;

use crate::{
    compile::Compiled,
    event::Probe,
    kinds,
    records::Records,
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
    compile_again(None, |probe| probe.needs_coming(module));
    let mut registry = REGISTRY.lock();
    let probes = registry.probes.iter();
    let count = probes
        .filter(|probe| probe.symbol_in(module).is_some())
        .count();
    if count == 0 {
        return;
    }
    // Without memory, each probe is unregistered by itself.
    let mut gone = UnregisterBatch::new(count).unwrap_or_default();
    for probe in &mut registry.probes {
        if probe.symbol_in(module).is_some() {
            if let Some(registered) = probe.take_gone() {
                registered.unregister_in(&mut gone);
            }
        }
    }
    gone.unregister();
    for probe in &mut registry.probes {
        let Some(symbol) = probe.symbol_in(module) else {
            continue;
        };
        let count = module.count_symbols(symbol);
        let is_enabled = probe.records().state.is_enabled.load(Relaxed);
        // After a failure, the probe waits until the module is loaded again.
        if let Err(error) = probe.register_in_module(count, is_enabled) {
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
        probe.disarm_in(module);
    }
}

/// Compiles the probes again that depend on `module`, which is being freed.
///
/// Process context; reads files.
pub(crate) fn module_going(module: &Module) {
    compile_again(Some(module), |probe| probe.needs_going(module));
}

/// Compiles the programs of probes again. Does not hold `REGISTRY` meanwhile.
fn compile_again(going: Option<&Module>, is_meant: impl Fn(&Probe) -> bool) {
    let compile = |spec: Result<Spec>, records: &Records| {
        let spec = spec?;
        let command = spec.command();
        let target = kinds::with(command.target, |kind| kind.resolve_again(&command))?;
        Compiled::again(&spec, &target, &records.schema, going).map_err(|failure| failure.errno())
    };
    // The number of a probe, and the index of a part of it.
    let find = |from: (usize, usize)| {
        let registry = REGISTRY.lock();
        let probes = registry.probes_from(from.0).iter();
        let mut parts = probes.flat_map(|probe| {
            let parts = probe.parts().enumerate();
            parts.map(|(index, part)| ((probe.number(), index), part))
        });
        let (at, part) = parts.find(|(at, part)| *at >= from && is_meant(part))?;
        let spec = spec::try_clone(part.spec());
        Some((at, spec, part.records().clone()))
    };
    let mut from = (0, 0);
    while let Some((at, spec, records)) = find(from) {
        let compiled = compile(spec, &records);
        let mut registry = REGISTRY.lock();
        let probe = registry.probe_mut(at.0);
        if let Some(part) = probe.and_then(|probe| probe.part_mut(at.1)) {
            part.set_compiled(compiled);
        }
        drop(registry);
        from = (at.0, at.1.wrapping_add(1));
    }
}
