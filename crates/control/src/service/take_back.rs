//! A pool that was opened and cannot be served after all.

use admin::changes::DestroyPool;
use admin::{Caller, Change, Handler, Response};

use super::Service;
use super::open::remove_files;
use super::reporter::Reporter;

impl Service {
    /// Undoes the opening: a pool that was just made goes, with the files that were made for it; another is exported.
    /// Called when nothing serves the pool, or with the failure that the caller has to tell.
    pub fn take_back(&self) {
        let Some(made) = &self.begin.made else {
            // The first failure is the one to be told.
            let _ended = self.shut_down();
            return;
        };
        if !self.destroy_new() {
            let _ended = self.shut_down();
        }
        remove_files(made);
    }

    /// False if the pool is still there.
    fn destroy_new(&self) -> bool {
        let caller = Caller {
            uid: sys::user_id(),
            gid: sys::group_id(),
            pid: 0,
        };
        let mut nobody = |_: Response| Ok(());
        let destroy = Change::DestroyPool(DestroyPool { force: true });
        self.execute(&destroy, &caller, "", &mut Reporter::new(&mut nobody))
            .is_ok()
    }
}
