//! One allocation: pages of bytes, each with its shadow under its own lock.

use super::shadow::{Accessor, Conflict, Shadow};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// What fresh memory holds, so that reading it never looks right by luck (a NaN in every float type).
const NOISE: u8 = 0xff;

/// Bytes and shadow of one page. The lock makes even a racing kernel well defined here.
pub struct Page {
    /// Absent until first touched.
    bytes: Option<Box<[u8; PAGE]>>,
    /// Who wrote and read what.
    pub shadow: Shadow,
}

impl Page {
    /// The bytes, made on first use.
    #[inline]
    pub fn bytes(&mut self) -> &mut [u8; PAGE] {
        self.bytes.get_or_insert_with(|| Box::new([NOISE; PAGE]))
    }
}

/// A live allocation.
pub struct Allocation {
    /// First device address.
    pub base: u64,
    /// Bytes asked for.
    pub size: u64,
    /// Ordinal of the device that owns it.
    pub device: usize,
    pages: Vec<Mutex<Page>>,
}

impl Allocation {
    /// Memory that was never written.
    pub fn new(base: u64, size: u64, device: usize) -> Self {
        let pages = (0..size.div_ceil(PAGE as u64))
            .map(|index| {
                let bytes = (size - index * PAGE as u64).min(PAGE as u64) as usize;
                Mutex::new(Page { bytes: None, shadow: Shadow::new(bytes) })
            })
            .collect();
        Self { base, size, device, pages }
    }

    /// Locks the page that holds an offset.
    #[inline]
    pub fn page(&self, offset: u64) -> MutexGuard<'_, Page> {
        self.pages[(offset / PAGE as u64) as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls back with each page of a range: offset of the part within the range, page, offset in the page, bytes.
    fn each_page(&self, offset: u64, bytes: u64, mut action: impl FnMut(usize, &mut Page, usize, usize)) {
        let mut done = 0;
        while done < bytes {
            let inside = ((offset + done) % PAGE as u64) as usize;
            let part = (PAGE - inside).min((bytes - done) as usize);
            action(done as usize, &mut self.page(offset + done), inside, part);
            done += part as u64;
        }
    }

    /// Writes bytes as one copy or fill.
    pub fn write(&self, offset: u64, source: &[u8], by: &Accessor<'_>) -> Option<Conflict> {
        let mut conflict = None;
        self.each_page(offset, source.len() as u64, |done, page, inside, part| {
            page.bytes()[inside..inside + part].copy_from_slice(&source[done..done + part]);
            conflict = conflict.or(page.shadow.write_range(inside, part, by));
        });
        conflict
    }

    /// Reads bytes as one copy; never-written bytes are a conflict only for the host.
    pub fn read(&self, offset: u64, target: &mut [u8], by: &Accessor<'_>, tolerate: bool) -> Option<Conflict> {
        let mut conflict = None;
        self.each_page(offset, target.len() as u64, |done, page, inside, part| {
            target[done..done + part].copy_from_slice(&page.bytes()[inside..inside + part]);
            let found = page.shadow.read_range(inside, part, by);
            conflict = conflict.or(found.filter(|found| !(tolerate && *found == Conflict::Uninitialised)));
        });
        conflict
    }

    /// Which bytes of a range were ever written.
    pub fn initialised(&self, offset: u64, bytes: u64) -> Vec<bool> {
        let mut result = Vec::with_capacity(bytes as usize);
        self.each_page(offset, bytes, |_, page, inside, part| result.extend(page.shadow.initialised(inside, part)));
        result
    }

    /// Takes over from a copy's source that some bytes were never written.
    pub fn forget_writes(&self, offset: u64, initialised: &[bool]) {
        if initialised.iter().all(|&known| known) {
            return;
        }
        self.each_page(offset, initialised.len() as u64, |done, page, inside, part| {
            for index in (0..part).filter(|index| !initialised[done + index]) {
                page.shadow.forget_write(inside + index, 1);
            }
        });
    }

    /// The end of the allocation as an access: everything must be ordered before it.
    pub fn release(&self, by: &Accessor<'_>) -> Option<Conflict> {
        let mut conflict = None;
        self.each_page(0, self.size, |_, page, inside, part| {
            conflict = conflict.or(page.shadow.write_range(inside, part, by));
        });
        conflict
    }
}
