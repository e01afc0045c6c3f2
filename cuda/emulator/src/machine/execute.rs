//! The interpreter's loop: one step at a time for all active lanes of a warp.

use super::block::State;
use super::warp::{Pause, Warp};
use crate::program::{Combine, Lanes, Logic, Operation, Shuffle, Slot, Vote, WARP};
use crate::report::Kind;

impl State<'_> {
    /// Runs a warp until it waits, ends or must stop.
    pub fn run(&mut self, warp: &mut Warp) -> Pause {
        let program = self.shared.launch.program;
        while let Some((index, lanes)) = warp.current() {
            let step = &program.steps[index as usize];
            let active = step.guard.map_or(lanes, |guard| lanes & warp.holds(guard));
            self.counters.warp_instructions[step.kind as usize] += 1;
            self.counters.thread_instructions[step.kind as usize] += u64::from(active.count_ones());
            self.budget -= 1;
            if self.budget == 0 {
                self.fail(Kind::Watchdog, index, first_thread(warp, lanes), || {
                    "the warp issued more instructions than the watchdog allows".to_string()
                });
                return Pause::Abort;
            }
            if active != 0 {
                warp.trips.issue(step);
            }
            match step.operation {
                Operation::Branch { target, meet } => {
                    if active == lanes {
                        warp.go(target);
                    } else if active == 0 {
                        warp.go(index + 1);
                    } else {
                        self.counters.divergent_branches += 1;
                        warp.diverge(active, target, index + 1, meet);
                    }
                    continue;
                }
                Operation::Exit => {
                    warp.go(index + 1);
                    warp.end(active);
                    continue;
                }
                Operation::Barrier if active != 0 => {
                    if active != warp.live {
                        let missing = (warp.live & !active).trailing_zeros();
                        self.fail(Kind::DivergentBarrier, index, first_thread(warp, active), || {
                            format!(
                                "a barrier that lane {missing} of the same warp does not reach together with this lane"
                            )
                        });
                        return Pause::Abort;
                    }
                    if let Some(ended) = warp.ended() {
                        self.fail(Kind::MissingBarrier, index, first_thread(warp, active), || {
                            format!("a barrier that lane {ended} of the same warp never reaches: it has ended")
                        });
                        return Pause::Abort;
                    }
                    warp.go(index + 1);
                    return Pause::Barrier(index);
                }
                ref operation => {
                    if active != 0 && self.perform(warp, operation, index, active).is_err() {
                        return Pause::Abort;
                    }
                }
            }
            warp.go(index + 1);
        }
        Pause::Done
    }

    /// Everything that does not move control.
    #[inline]
    fn perform(
        &mut self,
        warp: &mut Warp,
        operation: &Operation,
        step: u32,
        active: u32,
    ) -> Result<(), super::access::Abort> {
        match *operation {
            Operation::Arithmetic { form, destination, mask, sources } => {
                let [a, b, c, d] = sources;
                let inputs = [warp.register(a), warp.register(b), warp.register(c), warp.register(d)];
                if form.divides {
                    let zero = (0..WARP).find(|&lane| active >> lane & 1 == 1 && inputs[1][lane] == 0);
                    if let Some(lane) = zero {
                        self.report(Kind::DivisionByZero, step, warp.index * 32 + lane as u32, || {
                            "an integer divided by zero".to_string()
                        });
                    }
                }
                let mut out = [0; WARP];
                (form.function)(&inputs, &mut out);
                warp.write(destination, active, mask, &out);
            }
            Operation::Compare { comparison, destination, complement, sources: [left, right], combine } => {
                let bits = (comparison.function)(warp.register(left), warp.register(right));
                warp.write_predicate(destination, active, joined(warp, bits, combine));
                if let Some(complement) = complement {
                    warp.write_predicate(complement, active, joined(warp, !bits, combine));
                }
            }
            Operation::Set { comparison, destination, truth, sources: [left, right], combine } => {
                let bits = (comparison.function)(warp.register(left), warp.register(right));
                let bits = joined(warp, bits, combine);
                let values = std::array::from_fn(|lane| if bits >> lane & 1 == 1 { truth } else { 0 });
                warp.write(destination, active, u64::MAX, &values);
            }
            Operation::Select { destination, sources: [left, right], condition } => {
                let bits = warp.holds(condition);
                let (left, right) = (warp.register(left), warp.register(right));
                let values = std::array::from_fn(|lane| if bits >> lane & 1 == 1 { left[lane] } else { right[lane] });
                warp.write(destination, active, u64::MAX, &values);
            }
            Operation::Predicate { logic, destination, sources: [left, right] } => {
                let bits = apply(logic, warp.holds(left), warp.holds(right));
                warp.write_predicate(destination, active, bits);
            }
            Operation::Pack { destination, sources, count, bits } => {
                let values = std::array::from_fn(|lane| {
                    (0..usize::from(count))
                        .fold(0, |value, part| value | warp.register(sources[part])[lane] << (part * usize::from(bits)))
                });
                warp.write(destination, active, u64::MAX, &values);
            }
            Operation::Unpack { destinations, source, count, bits } => {
                let whole = *warp.register(source);
                let mask = u64::MAX >> (64 - bits);
                for (part, destination) in destinations.iter().take(usize::from(count)).enumerate() {
                    let Some(slot) = *destination else { continue };
                    warp.write(slot, active, mask, &whole.map(|value| value >> (part * usize::from(bits))));
                }
            }
            Operation::Load(ref access) => self.access(warp, access, step, active, false)?,
            Operation::Store(ref access) => self.access(warp, access, step, active, true)?,
            Operation::Shuffle { mode, destination, found, value, lane, clamp, members } => {
                let members = self.meet(warp, step, active, members);
                let sources = [value, lane, clamp].map(|slot| *warp.register(slot));
                self.shuffle(warp, step, active, members, mode, destination, found, &sources);
            }
            Operation::Vote { mode, destination, condition, members } => {
                let members = self.meet(warp, step, active, members);
                let votes = warp.holds(condition) & members & active;
                match mode {
                    Vote::Ballot => warp.write(destination, active, u64::MAX, &[votes.into(); WARP]),
                    Vote::All => warp.write_predicate(destination, active, mask_of(votes == members & active)),
                    Vote::Any => warp.write_predicate(destination, active, mask_of(votes != 0)),
                    Vote::Uniform => {
                        let same = votes == 0 || votes == members & active;
                        warp.write_predicate(destination, active, mask_of(same));
                    }
                }
            }
            Operation::ActiveMask { destination } => {
                warp.write(destination, active, u64::MAX, &[active.into(); WARP]);
            }
            Operation::WarpBarrier { members } => {
                // The only meeting that orders memory: shuffles and votes are documented not to.
                let members = self.meet(warp, step, active, members);
                warp.synchronise(members & active);
            }
            Operation::Fence => {}
            Operation::Barrier | Operation::Branch { .. } | Operation::Exit => {}
        }
        Ok(())
    }

    /// A meeting of the lanes named by a mask, which must be the lanes that are here; returns the mask.
    fn meet(&mut self, warp: &mut Warp, step: u32, active: u32, members: Slot) -> u32 {
        let masks = warp.register(members);
        let first = active.trailing_zeros() as usize;
        let members = masks[first] as u32;
        let differs = (0..WARP).find(|&lane| active >> lane & 1 == 1 && masks[lane] as u32 != members);
        let thread = warp.index * 32;
        if let Some(lane) = differs {
            let other = masks[lane] as u32;
            self.report(Kind::WrongMembers, step, thread + lane as u32, || {
                format!("lane {lane} names the members {other:#010x}, lane {first} names {members:#010x}")
            });
        } else if active & !members != 0 {
            let lane = (active & !members).trailing_zeros();
            self.report(Kind::WrongMembers, step, thread + lane, || {
                format!("lane {lane} takes part but is not among the members {members:#010x}")
            });
        } else if members & warp.live & !active != 0 {
            let lane = (members & warp.live & !active).trailing_zeros();
            self.report(Kind::WrongMembers, step, thread + first as u32, || {
                format!("the members {members:#010x} name lane {lane}, which is on another path")
            });
        }
        self.counters.warp_barriers += 1;
        members
    }

    #[allow(clippy::too_many_arguments, reason = "one call with the fields of one instruction")]
    fn shuffle(
        &mut self,
        warp: &mut Warp,
        step: u32,
        active: u32,
        members: u32,
        mode: Shuffle,
        destination: Slot,
        found: Option<Slot>,
        [value, lanes, clamps]: &[Lanes; 3],
    ) {
        let mut result = [0; WARP];
        let mut inside = 0u32;
        for lane in (0..WARP).filter(|lane| active >> lane & 1 == 1) {
            let (source, in_range) = shuffle_source(mode, lane as u32, lanes[lane] as u32, clamps[lane] as u32);
            inside |= u32::from(in_range) << lane;
            let source = if in_range { source as usize } else { lane };
            result[lane] = value[source];
            if active & members & (1 << source) == 0 {
                self.report(Kind::ShuffleFromInactive, step, warp.index * 32 + lane as u32, || {
                    format!("lane {lane} takes its value from lane {source}, which does not take part")
                });
            }
        }
        warp.write(destination, active, u64::MAX, &result);
        if let Some(found) = found {
            warp.write_predicate(found, active, inside);
        }
    }
}

/// The lane a shuffle reads and whether it is inside the segment; `clamp` packs the segment mask above the bound.
fn shuffle_source(mode: Shuffle, lane: u32, argument: u32, clamp: u32) -> (u32, bool) {
    let argument = argument & 31;
    let (bound, segment) = (clamp & 31, clamp >> 8 & 31);
    let highest = (lane & segment) | (bound & !segment);
    let lowest = lane & segment;
    match mode {
        Shuffle::Up => {
            // For `up` the bound is the lowest lane of the segment.
            let source = lane.wrapping_sub(argument);
            (source, source as i32 >= highest as i32)
        }
        Shuffle::Down => (lane + argument, lane + argument <= highest),
        Shuffle::Butterfly => (lane ^ argument, lane ^ argument <= highest),
        Shuffle::Index => {
            let source = lowest | (argument & !segment);
            (source, source <= highest)
        }
    }
}

fn first_thread(warp: &Warp, lanes: u32) -> u32 {
    warp.index * 32 + lanes.trailing_zeros()
}

fn mask_of(truth: bool) -> u32 {
    if truth { u32::MAX } else { 0 }
}

fn apply(logic: Logic, left: u32, right: u32) -> u32 {
    match logic {
        Logic::And => left & right,
        Logic::Or => left | right,
        Logic::Xor => left ^ right,
    }
}

fn joined(warp: &Warp, bits: u32, combine: Combine) -> u32 {
    combine.map_or(bits, |(logic, guard)| apply(logic, bits, warp.holds(guard)))
}
