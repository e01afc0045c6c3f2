//! A stand-in for the CUDA driver that interprets PTX.
