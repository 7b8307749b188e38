"""Services whose probes say whether their Kafka client works: gunicorn, FastAPI, Celery; and a manifest for Kubernetes."""
