//! Object sets, dnodes, buffers, transactions and the ZAP.
