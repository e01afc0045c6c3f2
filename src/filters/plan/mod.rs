//! Before anything is computed: how a call is cut into tiles, and which path its strips take.
//!
//! **Comes in**: geometry, taps, strides. **Comes out**: a [`Plan`](tiles::Plan) and, for each strip, a [`Path`](path::Path). All of it
//! follows from shapes, strides, the kernel and the level, so that results do not depend on threads; tiles do not change
//! a single bit either. Nothing here knows a register: of [`loops`](crate::loops) only data types are named. The drivers call
//! it: `filter`, `kernel_gradient` and `pipeline`.

pub mod layout;
pub mod order;
pub mod path;
pub mod rim;
pub mod row_groups;
pub mod strip;
pub mod taps;
pub mod tiles;
