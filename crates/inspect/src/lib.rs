//! Reading pools without trusting them: ls, cat, cp, tree, inspect.
