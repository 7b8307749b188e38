"""Requests to one broker and their answers: addresses, connecting, frames, pipelining, versions, channels."""
