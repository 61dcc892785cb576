"""A program's own web application."""

from fastapi import FastAPI

web = FastAPI()
