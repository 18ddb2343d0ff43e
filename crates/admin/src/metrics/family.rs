//! What the name of a metric says.

/// What the name of a metric is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricFamily<'a> {
    /// A class of locks.
    Lock {
        /// Its name.
        class: &'a str,
        /// What was measured.
        what: &'a str,
    },
    /// A queue.
    Queue {
        /// Its name.
        queue: &'a str,
        /// What was measured.
        what: &'a str,
    },
    /// A device.
    Device {
        /// Its guid.
        vdev: &'a str,
        /// One of the classes of I/O, if it is about that only.
        class: Option<&'a str>,
        /// What was measured.
        what: &'a str,
    },
    /// How long requests of the kernel took.
    Fuse {
        /// Which.
        operation: &'a str,
    },
    /// Whatever else.
    Other,
}

impl<'a> MetricFamily<'a> {
    /// By its name.
    #[must_use]
    pub fn of(name: &'a str) -> Self {
        if let Some((class, what)) = name
            .strip_prefix("lock.")
            .and_then(|rest| rest.rsplit_once('.'))
        {
            return Self::Lock { class, what };
        }
        if let Some((queue, what)) = name
            .strip_prefix("queue.")
            .and_then(|rest| rest.rsplit_once('.'))
        {
            return Self::Queue { queue, what };
        }
        if let Some((vdev, rest)) = name
            .strip_prefix("vdev.")
            .and_then(|rest| rest.split_once('.'))
        {
            let known = vdev::IoClass::ALL.map(vdev::IoClass::name);
            return match rest.split_once('.') {
                Some((class, what)) if known.contains(&class) => Self::Device {
                    vdev,
                    class: Some(class),
                    what,
                },
                _ => Self::Device {
                    vdev,
                    class: None,
                    what: rest,
                },
            };
        }
        if let Some(operation) = name
            .strip_prefix("fuse.")
            .and_then(|rest| rest.strip_suffix(".latency_ns"))
        {
            return Self::Fuse { operation };
        }
        Self::Other
    }
}
