//! Reading, writing and freeing blocks by block pointer.
