"""Celery tasks that produce, in a pool of forked workers."""

import os

from celery import Celery


def make_app() -> Celery:
    """Make the application that all clients have in common: its queue is a directory, so that nothing else need run."""
    app = Celery("tasks", broker="filesystem://")
    folder = os.environ["QUEUE"]
    app.conf.broker_transport_options = {
        "data_folder_in": folder,
        "data_folder_out": folder,
        "control_folder": os.path.join(folder, "control"),
    }
    return app
