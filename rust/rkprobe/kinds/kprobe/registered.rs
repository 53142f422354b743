// SPDX-License-Identifier: GPL-2.0

//! The handlers of kprobes, kretprobes, and kprobes on return instructions and blocks, and their
//! registrations.

use core::num::NonZero;

use kernel::{
    prelude::*,
    sync::Arc, //
};

use ktrace::{
    kprobe::{
        self,
        AnyKprobe,
        Hit,
        Kprobe, //
    },
    kretinsn::{
        self,
        Kretinsn, //
    },
    kretprobe::{
        self,
        Kretprobe, //
    },
    once::{
        self,
        OnceBatch, //
    },
    trace_event::EventMutexHeld,
    tracepoint::Tracepoint, //
};
use probe::{
    command::MAX_ARGUMENTS,
    fetch::EntryArgument, //
};

use crate::{
    action::{
        Action,
        Conditional,
        Counts, //
    },
    block_probes::{
        BlockProbes,
        Refusal,
        Wanted, //
    },
    entry_saver::{
        EntryLayout,
        EntrySaver,
        FEW, //
    },
    hit_context::CallValues,
    path::{
        AtBlock,
        AtCall,
        Paths, //
    },
    registered::{
        boxed,
        Registered,
        UnregisterBatch, //
    },
    task_free::AtTaskFree, //
};

/// Registers a return probe, with the smallest handler that can save its entry data.
pub(super) fn register_return(
    target: kprobe::Target<'_>,
    maxactive: u16,
    action: Action,
    EntryLayout {
        arguments,
        is_timed,
    }: EntryLayout,
) -> Result<KBox<dyn Registered>> {
    fn register_handler<H>(
        target: kprobe::Target<'_>,
        maxactive: u16,
        handler: H,
    ) -> Result<KBox<dyn Registered>>
    where
        H: kretprobe::Handler + AsRef<Action>,
    {
        let probe = Kretprobe::register_disabled(target, maxactive, handler);
        boxed(KBox::pin_init(probe, GFP_KERNEL)?)
    }

    fn register_saver<const N: usize, const IS_TIMED: bool>(
        target: kprobe::Target<'_>,
        maxactive: u16,
        action: Action,
        arguments: KVec<EntryArgument>,
    ) -> Result<KBox<dyn Registered>> {
        let saver = EntrySaver::<N, IS_TIMED>::new(action, arguments)?;
        register_handler(target, maxactive, saver)
    }

    match (arguments.len(), is_timed) {
        (0, false) if !action.checks_calls() => register_handler(target, maxactive, action),
        // The time alone.
        (0, true) => register_saver::<1, true>(target, maxactive, action, arguments),
        // For most probes.
        (..=2, false) => register_saver::<2, false>(target, maxactive, action, arguments),
        // For all arguments in registers.
        (..=FEW, false) => register_saver::<FEW, false>(target, maxactive, action, arguments),
        (..FEW, true) => register_saver::<FEW, true>(target, maxactive, action, arguments),
        // For any command. If the probe saves the time, one argument is `$elapsed`.
        (_, false) => register_saver::<MAX_ARGUMENTS, false>(target, maxactive, action, arguments),
        (_, true) => register_saver::<MAX_ARGUMENTS, true>(target, maxactive, action, arguments),
    }
}

// One of the allocator's sizes. The next one is 256.
const _: () = assert!(size_of::<Kprobe<Action>>() <= 192);

/// The handler of a probe whose breakpoint the kernel must not replace by a jump.
pub(super) struct NotReplaced(pub(super) Action);

impl AsRef<Action> for NotReplaced {
    fn as_ref(&self) -> &Action {
        &self.0
    }
}

#[vtable]
impl kprobe::Handler for NotReplaced {
    #[inline(always)]
    fn pre(&self, hit: &Hit<'_>) {
        kprobe::Handler::pre(&self.0, hit);
    }

    /// Only for the kernel to see that there is one.
    #[inline(always)]
    fn post(&self, _: &Hit<'_>) {}
}

impl<H: kprobe::Handler + AsRef<Action>> Registered for Pin<KBox<Kprobe<H>>> {
    fn enable(&mut self, _: Option<&EventMutexHeld>) -> Result {
        Kprobe::enable(self)
    }

    fn disarm(&self) -> Result {
        Kprobe::disable(self)
    }

    fn counts(&self) -> Counts {
        Counts::of(self.handler(), self.missed())
    }

    fn address(&self) -> Option<usize> {
        Some(Kprobe::address(self))
    }

    fn is_gone(&self) -> bool {
        Kprobe::is_gone(self)
    }

    fn unregister_in(self: KBox<Self>, batch: &mut UnregisterBatch) {
        // Commands with many probes may have used up the capacity.
        let _ = batch.kprobes.reserve(1, GFP_KERNEL);
        let probe = KBox::into_inner(self).into();
        drop(batch.kprobes.push_within_capacity(probe));
    }
}

impl<H: kretprobe::Handler + AsRef<Action>> Registered for Pin<KBox<Kretprobe<H>>> {
    fn enable(&mut self, _: Option<&EventMutexHeld>) -> Result {
        Kretprobe::enable(self)
    }

    fn disarm(&self) -> Result {
        Kretprobe::disable(self)
    }

    fn counts(&self) -> Counts {
        Counts::of(self.handler(), self.missed())
    }

    fn address(&self) -> Option<usize> {
        Some(Kretprobe::address(self))
    }

    fn is_gone(&self) -> bool {
        Kretprobe::is_gone(self)
    }

    fn maxactive(&self) -> u32 {
        Kretprobe::maxactive(self)
    }

    fn unregister_in(self: KBox<Self>, batch: &mut UnregisterBatch) {
        let probe = KBox::into_inner(self).into();
        drop(batch.kretprobes.push_within_capacity(probe));
    }
}

impl Registered for Kretinsn<Action> {
    fn enable(&mut self, _: Option<&EventMutexHeld>) -> Result {
        Kretinsn::enable(self)
    }

    fn disarm(&self) -> Result {
        Kretinsn::disable(self)
    }

    fn counts(&self) -> Counts {
        Counts::of(self.handler(), self.missed())
    }

    fn address(&self) -> Option<usize> {
        Some(Kretinsn::address(self))
    }

    fn is_gone(&self) -> bool {
        Kretinsn::is_gone(self)
    }

    fn unregister_in(self: KBox<Self>, batch: &mut UnregisterBatch) {
        unregister_kprobes(KBox::into_inner(self).into_kprobes(), batch);
    }
}

/// The probes on the blocks of a function.
pub(super) enum Blocks {
    /// They hit each time.
    Always(kprobe::Batch<Arc<Action>>),
    /// They hit once each.
    Once(OnceBatch<Arc<Action>>),
}

/// Evaluates an expression for the batch in a [`Blocks`]. Both types have the same functions.
macro_rules! for_batch {
    ($blocks:expr, $batch:ident => $result:expr) => {
        match $blocks {
            Blocks::Always($batch) => $result,
            Blocks::Once($batch) => $result,
        }
    };
}

/// The registered probes of an event on the blocks of a function.
pub(super) struct OnBlocks {
    action: Arc<Action>,
    pub(super) probes: BlockProbes<Blocks>,
}

impl OnBlocks {
    /// Registers them, disabled. Fails as [`BlockProbes::register_disabled`].
    pub(super) fn register_disabled(
        target: kprobe::Target<'_>,
        is_once: bool,
        action: Action,
    ) -> Result<Self, Refusal> {
        let action = Arc::new(action, GFP_KERNEL)?;
        let new = || {
            Ok(match is_once {
                true => Blocks::Once(OnceBatch::new()?),
                false => Blocks::Always(kprobe::Batch::empty()),
            })
        };
        let add = |blocks: &mut Blocks, stays, _, block: &_| {
            let action = action.clone();
            match blocks {
                Blocks::Always(batch) => batch.add_disabled(block, action),
                Blocks::Once(batch) => batch.add_disabled(block, stays, action),
            }
        };
        Ok(Self {
            probes: BlockProbes::register_disabled(target, Wanted::All, new, add)?,
            action,
        })
    }
}

impl Registered for OnBlocks {
    /// Arms the probes of all blocks, also of those that have hit once.
    fn enable(&mut self, _: Option<&EventMutexHeld>) -> Result {
        for_batch!(self.probes.probes(), batch => batch.enable())
    }

    fn disarm(&self) -> Result {
        for_batch!(self.probes.probes(), batch => batch.disable())
    }

    fn counts(&self) -> Counts {
        let missed = for_batch!(self.probes.probes(), batch => batch.missed());
        Counts::of(&self.action, missed)
    }

    fn address(&self) -> Option<usize> {
        Some(self.probes.entry())
    }

    fn is_gone(&self) -> bool {
        for_batch!(self.probes.probes(), batch => batch.is_gone())
    }

    fn unregister_in(self: KBox<Self>, unregistered: &mut UnregisterBatch) {
        let blocks = KBox::into_inner(self).probes.into_probes();
        for_batch!(blocks, batch => unregister_kprobes(batch.into_kprobes(), unregistered));
    }
}

/// Moves kprobes to `batch`.
fn unregister_kprobes(probes: impl Iterator<Item = AnyKprobe>, batch: &mut UnregisterBatch) {
    let (least, _) = probes.size_hint();
    let _ = batch.kprobes.reserve(least, GFP_KERNEL);
    for probe in probes {
        drop(batch.kprobes.push_within_capacity(probe));
    }
}

/// The registered probes of an event on the calls of a function, with their paths.
pub(super) struct OnPath<const N: usize> {
    call: Pin<KBox<Kretprobe<AtCall<N>>>>,
    pub(super) blocks: BlockProbes<kprobe::Batch<AtBlock>>,
    paths: Arc<Paths>,
    _exits: Tracepoint<AtTaskFree<Paths>>,
}

impl<const N: usize> OnPath<N> {
    /// Registers them, disabled, for at most `calls` calls in progress.
    pub(super) fn register_disabled(
        target: kprobe::Target<'_>,
        calls: Option<NonZero<u16>>,
        action: Action,
        arguments: KVec<EntryArgument>,
    ) -> Result<Self, Refusal> {
        let paths = Arc::new(Paths::new(calls)?, GFP_KERNEL)?;
        // A task that exits in a call must not keep it, so this comes first.
        let exits = AtTaskFree::attach(paths.clone())?;
        let new = || Ok(kprobe::Batch::empty());
        let add = |probes: &mut kprobe::Batch<_>, _, index, block: &_| match index {
            // The probe of the call has the first block.
            0 => Ok(()),
            _ => probes.add_disabled(block, AtBlock::new(paths.clone(), index)),
        };
        let mut blocks = BlockProbes::register_disabled(target, Wanted::Needed, new, add)?;
        paths.set_blocks(&mut blocks)?;
        let call = AtCall::new(paths.clone(), action, arguments)?;
        let call = Kretprobe::register_disabled(target, paths.instances(), call);
        Ok(Self {
            call: KBox::pin_init(call, GFP_KERNEL)?,
            blocks,
            paths,
            _exits: exits,
        })
    }
}

impl<const N: usize> Registered for OnPath<N> {
    /// Arms the probe of the call last, so that no path lacks blocks. A call that began before has
    /// no record.
    fn enable(&mut self, _: Option<&EventMutexHeld>) -> Result {
        self.paths.start_round();
        self.blocks.probes().enable()?;
        Kretprobe::enable(&self.call).inspect_err(|_| {
            // The probes were armed above.
            let _ = self.blocks.probes().disable();
        })
    }

    fn disarm(&self) -> Result {
        Kretprobe::disable(&self.call).and(self.blocks.probes().disable())
    }

    /// A visit of a block that no path shows counts as missed, too.
    fn counts(&self) -> Counts {
        let missed = { self.call.missed() }
            .wrapping_add(self.paths.missed())
            .wrapping_add(self.blocks.probes().missed());
        Counts::of(self.call.handler(), missed)
    }

    fn address(&self) -> Option<usize> {
        Some(self.blocks.entry())
    }

    fn is_gone(&self) -> bool {
        self.call.is_gone() || self.blocks.probes().is_gone()
    }

    fn maxactive(&self) -> u32 {
        self.paths.calls().into()
    }

    fn unregister_in(self: KBox<Self>, batch: &mut UnregisterBatch) {
        let this = KBox::into_inner(self);
        drop(batch.kretprobes.push_within_capacity(this.call.into()));
        unregister_kprobes(this.blocks.into_probes().into_kprobes(), batch);
    }
}

#[vtable]
impl kprobe::Handler for Action {
    #[inline(always)]
    fn pre(&self, hit: &Hit<'_>) {
        self.run(hit, (), (hit.address(),));
    }
}

impl once::Handler for Action {
    #[inline(always)]
    fn is_awaited(&self, hit: &Hit<'_>) -> bool {
        let conditional = self.conditional();
        conditional.is_none_or(|conditional| conditional.admits(hit, ()))
    }

    #[inline(always)]
    fn pre(&self, hit: &Hit<'_>) {
        let action = self.conditional().map_or(self, Conditional::action);
        action.run_always(hit, (), (hit.address(),));
    }
}

#[vtable]
impl kretprobe::Handler for Action {
    type Data = ();
    const WITHOUT_ENTRY: Option<()> = Some(());

    #[inline(always)]
    fn ret(&self, hit: &Hit<'_>, call: &kretprobe::Call<'_, ()>) {
        self.run(hit, (), (hit.address(), call.caller()));
    }
}

impl kretinsn::Handler for Action {
    #[inline(always)]
    fn ret(&self, hit: &Hit<'_>, call: &kretinsn::Call) {
        let exit = ExitAddress(hit.address());
        self.run(hit, exit, (call.function(), call.caller()));
    }
}

/// The address of the return instruction.
#[derive(Clone, Copy)]
struct ExitAddress(usize);

impl CallValues for ExitAddress {
    #[inline(always)]
    fn exit(self) -> u64 {
        self.0 as u64
    }
}
