//! (Being written.)

/// The write queue of a leaf.
pub(crate) struct Queue;

impl Queue {
    pub(crate) fn help(&self) -> bool {
        unimplemented!()
    }
    pub(crate) fn kick(&self) {
        unimplemented!()
    }
}
