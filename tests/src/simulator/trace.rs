//! The last events of a run, for people.

use super::shared::Shared;
use farside_protocol::geometry::INDEX_AT;
use farside_protocol::{Link, Locator, SlotIndex, SlotState, SlotWord};
use farside_transport::sim::{Event, What};

/// Events that are kept.
pub(super) const EVENTS: usize = 400;

pub(super) fn lines(shared: &Shared) -> Vec<String> {
    shared.world.events().iter().map(|event| line(shared, event)).collect()
}

fn line(shared: &Shared, event: &Event) -> String {
    let server = shared.setup.programs.len();
    let who = match event.client.0 {
        number if number < server => format!("client {number}"),
        number if number == server => "server".into(),
        _ => "reader".into(),
    };
    let what = match &event.what {
        What::Read { at, words, saw } => {
            let saw: Vec<_> = saw
                .iter()
                .map(|(at, word)| format!("{} {}", place(shared, *at), show(shared, *at, *word)))
                .collect();
            format!("READ {} +{words}: {}", place(shared, *at), saw.join(", "))
        }
        What::Write { at, words } => format!("WRITE {} +{words}", place(shared, *at)),
        What::CompareSwap { at, expect, new, found } => {
            let [expected, new, there] = [expect, new, found].map(|word| show(shared, *at, *word));
            if expect == found {
                format!("CAS {}: {expected} -> {new}", place(shared, *at))
            } else {
                format!("CAS {}: {expected} -> {new} fails on {there}", place(shared, *at))
            }
        }
        What::Lost => "loses the completion".into(),
        What::Abandoned => "gives its chain up".into(),
        What::Fenced => "is fenced".into(),
        What::Severed => "is cut off".into(),
        What::Note(remark) => remark.clone(),
    };
    let at_us = event.at_ns as f64 / 1000.0 - ((1u64 << 40) as f64 / 1000.0);
    format!("{:>6} {at_us:>10.1} us  {who}: {what}", event.step)
}

fn place(shared: &Shared, at: u64) -> String {
    if at < shared.table.geometry.heap_at() {
        format!("slot {}", SlotIndex(((at - INDEX_AT) / 8) as u32).0)
    } else if at.is_multiple_of(64) {
        format!("block {}", at / 64)
    } else {
        format!("block {}+{}", at / 64, at % 64)
    }
}

fn show(shared: &Shared, at: u64, word: u64) -> String {
    if at < shared.table.geometry.heap_at() { show_slot(SlotWord::from_bits(word)) } else { show_link(word) }
}

fn show_slot(word: SlotWord) -> String {
    match word.state() {
        SlotState::Empty => "empty".into(),
        SlotState::Tentative => format!("tentative {}", show_locator(word.locator())),
        SlotState::Committed => show_locator(word.locator()),
        SlotState::Growing => format!("{:#x}", word.to_bits()),
    }
}

fn show_locator(locator: Locator) -> String {
    format!("{}#{} of {:03x}", locator.block().granule(), locator.tag(), locator.fingerprint())
}

fn show_link(word: u64) -> String {
    match Link::from_bits(word) {
        Some(Link::End(count)) => format!("END #{count}"),
        Some(Link::NextBlind(next)) => format!("BLIND to {}", show_locator(next)),
        Some(Link::NextOther(next)) => format!("OTHER to {}", show_locator(next)),
        Some(Link::Dead(death)) => format!("DEAD {death:?}"),
        None => format!("{word:#x}"),
    }
}
