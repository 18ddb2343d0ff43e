//! How many bytes pass each level on their way between callers and devices.

use super::{Counter, Value};

/// Bytes so far, for the whole process. What is written at one level divided by what is written
/// above it is the amplification.
#[derive(Debug)]
pub struct Flow {
    /// Callers read.
    pub user_read: Counter,
    /// Callers wrote.
    pub user_written: Counter,
    /// Written to the intent log.
    pub log: Counter,
    /// Blocks that txgs wrote, after compression, one copy.
    pub txg: Counter,
    /// Read from devices.
    pub device_read: Counter,
    /// Written to devices, all copies.
    pub device_written: Counter,
}

impl Flow {
    /// Every level with its name.
    #[must_use]
    pub const fn levels(&self) -> [(&'static str, &Counter); 6] {
        [
            ("user_read", &self.user_read),
            ("user_written", &self.user_written),
            ("log", &self.log),
            ("txg", &self.txg),
            ("device_read", &self.device_read),
            ("device_written", &self.device_written),
        ]
    }

    pub(crate) fn collect(&self, sink: &mut dyn FnMut(&str, Value)) {
        for (name, counter) in self.levels() {
            sink(name, Value::from(counter));
        }
    }
}

/// The process's flow.
#[must_use]
pub fn flow() -> &'static Flow {
    static FLOW: Flow = Flow {
        user_read: Counter::new(),
        user_written: Counter::new(),
        log: Counter::new(),
        txg: Counter::new(),
        device_read: Counter::new(),
        device_written: Counter::new(),
    };
    &FLOW
}
