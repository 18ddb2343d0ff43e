//! Windows of the instruments, one closed every second.

use std::sync::Arc;
use std::time::Duration;

use base::lock::{LockClass, Mutex, rank};
use base::metrics::{Source, Value, Windows, registry};
use base::thread;

static WINDOWS: LockClass = LockClass::new("control.windows", rank::FRONT_END + 40);
const WINDOW: Duration = Duration::from_secs(1);

/// Closes a window of [`Windows`] every second for as long as the service lives.
pub(super) struct Recorder {
    windows: Mutex<Windows>,
}

impl Recorder {
    pub(super) fn start() -> Arc<Self> {
        let recorder = Arc::new(Self {
            windows: Mutex::new(&WINDOWS, Windows::new()),
        });
        registry().add_source("window", &recorder);
        let for_thread = Arc::downgrade(&recorder);
        let start = thread::named("instruments", sys::thread::ORDINARY);
        let started = start.stack_bytes(64 << 10).spawn(move || {
            loop {
                std::thread::sleep(WINDOW);
                let Some(recorder) = for_thread.upgrade() else {
                    return;
                };
                recorder.windows.lock().close();
            }
        });
        // Without the thread there are no windows; all else is as it was.
        drop(started);
        recorder
    }
}

impl Source for Recorder {
    fn collect(&self, sink: &mut dyn FnMut(&str, Value)) {
        self.windows.lock().collect(sink);
    }
}
